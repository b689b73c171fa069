#pragma once

#include "services/verifier/draft_service.h"
#include "tandem/v1/draft.pb.h"

namespace tandem {

DrafterFacts FactsOf(const v1::DrafterHello& hello);

v1::Offer OfferOf(const DraftService::Options& options, const DraftOffer& offer);

}  // namespace tandem
