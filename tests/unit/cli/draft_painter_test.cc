#include "services/cli/draft_painter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/v1/generation.pb.h"

namespace tandem::cli {
namespace {

using testing::ElementsAre;

TEST(DraftPainterTest, CutsTextWhereTheOriginChanges) {
  DraftPainter painter;
  painter.AddToken("The", false);
  painter.AddToken(" quick", true);
  painter.AddToken(" brown", true);
  painter.AddToken(" fox", false);
  EXPECT_THAT(painter.AddText("The quick brown fox"),
              ElementsAre(DraftSpan{"The", false}, DraftSpan{" quick brown", true},
                          DraftSpan{" fox", false}));
}

TEST(DraftPainterTest, TextMayLagBehindTokens) {
  DraftPainter painter;
  painter.AddToken("ab", false);
  painter.AddToken("cd", true);
  EXPECT_THAT(painter.AddText("abc"), ElementsAre(DraftSpan{"ab", false}, DraftSpan{"c", true}));
  painter.AddToken("ef", false);
  EXPECT_THAT(painter.AddText("def"), ElementsAre(DraftSpan{"d", true}, DraftSpan{"ef", false}));
}

TEST(DraftPainterTest, ACharacterOfSeveralTokensBelongsToTheLast) {
  DraftPainter painter;
  // U+3042 is E3 81 82, U+1F600 is F0 9F 98 80.
  painter.AddToken("\xE3\x81", false);
  painter.AddToken("\x82", true);
  painter.AddToken("\xF0\x9F", true);
  painter.AddToken("\x98\x80", false);
  EXPECT_THAT(painter.AddText("\xE3\x81\x82\xF0\x9F\x98\x80"),
              ElementsAre(DraftSpan{"\xE3\x81\x82", true}, DraftSpan{"\xF0\x9F\x98\x80", false}));
}

TEST(DraftPainterTest, BytesThatAreNotUtf8AreOneReplacementCharacterEach) {
  DraftPainter painter;
  painter.AddToken("a\xFF", true);
  painter.AddToken("b", false);
  EXPECT_THAT(painter.AddText("a\xEF\xBF\xBD"
                              "b"),
              ElementsAre(DraftSpan{"a\xEF\xBF\xBD", true}, DraftSpan{"b", false}));
}

TEST(DraftPainterTest, TextDroppedByTheServerIsSkipped) {
  DraftPainter painter;
  painter.AddToken(" ", false);
  painter.AddToken("Yes", true);
  EXPECT_THAT(painter.AddText("Yes"), ElementsAre(DraftSpan{"Yes", true}));
}

TEST(DraftPainterTest, TextWithoutTokensIsNotDrafted) {
  DraftPainter painter;
  painter.AddToken("a", true);
  EXPECT_THAT(painter.AddText("xa"), ElementsAre(DraftSpan{"x", false}, DraftSpan{"a", true}));
}

TEST(AcceptedDraftsTest, TheFirstTokensOfARoundWereDrafts) {
  v1::Delta delta;
  v1::Round* round = delta.add_rounds();
  round->set_tokens(3);
  round->set_drafted(3);
  round->set_accepted(2);
  round = delta.add_rounds();
  round->set_tokens(1);
  round->set_drafted(3);
  EXPECT_THAT(AcceptedDrafts(delta.rounds(), 5), ElementsAre(true, true, false, false, false));
}

}  // namespace
}  // namespace tandem::cli
