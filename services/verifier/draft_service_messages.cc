#include "services/verifier/draft_service_messages.h"

namespace tandem {

DrafterFacts FactsOf(const v1::DrafterHello& hello) {
  const v1::ProcessIdentity& id = hello.identity();
  DrafterFacts facts;
  facts.identity = {.protocol_major = id.protocol_major(),
                    .protocol_minor = id.protocol_minor(),
                    .boot_id = id.boot_id(),
                    .pid_namespace = id.pid_namespace(),
                    .pid = id.pid(),
                    .uid = id.uid(),
                    .backend = id.backend(),
                    .device_uuid = id.device_uuid(),
                    .mps = id.mps()};
  facts.base_model = hello.base_model();
  facts.layers = static_cast<int>(hello.base_layers());
  facts.width = static_cast<int>(hello.base_width());
  for (int i = 0; i < 2 && hello.taps_size() == 2; ++i) {
    facts.taps[i] = static_cast<int>(hello.taps(i));
  }
  facts.sidecar = {.kind = hello.kind(),
                   .depth = static_cast<int>(hello.depth()),
                   .window = static_cast<int>(hello.window()),
                   .max_drafts = static_cast<int>(hello.max_drafts()),
                   .hash = hello.sidecar_hash()};
  facts.force = hello.force();
  facts.closed_epoch = hello.closed_epoch();
  return facts;
}

v1::Offer OfferOf(const DraftService::Options& options, const DraftOffer& offer) {
  v1::Offer message;
  message.set_protocol_minor(ipc::kProtocolMinor);
  message.set_base_model(options.model);
  message.set_base_hash(options.model_hash);
  message.set_layers(static_cast<uint32_t>(options.layers));
  const ipc::LayoutSizes& sizes = options.layout.sizes;
  message.set_width(static_cast<uint32_t>(sizes.width));
  message.set_vocabulary_size(static_cast<uint32_t>(sizes.vocab));
  message.set_epoch(offer.epoch);
  message.set_lease_timeout_ms(static_cast<uint32_t>(options.lease_seconds * 1e3));
  message.set_layout_version(ipc::kLayoutVersion);
  message.set_control_bytes(options.layout.control_bytes);
  message.set_feature_bytes(options.layout.feature_bytes);
  message.set_slots(static_cast<uint32_t>(sizes.slots));
  message.set_max_lanes(static_cast<uint32_t>(sizes.max_lanes));
  message.set_max_rows(static_cast<uint32_t>(sizes.max_rows));
  message.set_max_drafts(static_cast<uint32_t>(options.max_drafts));
  for (const uint64_t offset : options.layout.offsets) message.add_offsets(offset);
  message.set_descriptor_socket(options.descriptor_socket);
  message.set_descriptor_token(offer.descriptor_token);
  message.set_embedding_bytes(options.embedding_bytes);
  message.set_head_bytes(options.head_bytes);
  message.set_head_format(options.head_format);
  message.set_nonce(offer.nonce);
  message.set_device(offer.device);
  message.set_feature_handle(offer.feature_handle);
  message.set_embedding_handle(options.embedding_handle);
  message.set_head_handle(options.head_handle);
  return message;
}

}  // namespace tandem
