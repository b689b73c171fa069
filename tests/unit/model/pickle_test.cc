#include "common/model/pth/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/model/file_writers.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Pickle> Read(const std::string& bytes) {
  return ReadPickle({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "x.pth");
}

// The error for a pickle of protocol 2 with these opcodes.
std::string ErrorOf(const std::string& opcodes) {
  const auto pickle = Read(std::string("\x80\x02") + opcodes);
  return pickle.ok() ? "no error" : std::string(pickle.status().message());
}

TEST(PickleTest, ReadsScalars) {
  // K 255, M 65535, J -1, LONG1 of 0, 1 and 8 bytes, G 1.5 (big-endian), True, False, None, text.
  constexpr char kBytes[] =
      "\x80\x02](K\xffM\xff\xffJ\xff\xff\xff\xff\x8a\x00\x8a\x01\xfe\x8a\x08"
      "\x01\x00\x00\x00\x01\x00\x00\x00G\x3f\xf8\x00\x00\x00\x00\x00\x00"
      "\x88\x89NX\x02\x00\x00\x00"
      "hie.";
  const std::string bytes(kBytes, sizeof(kBytes) - 1);
  const auto pickle = Read(bytes);
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  const PickleValue& list = pickle->values[pickle->root];
  ASSERT_EQ(list.kind, PickleKind::kList);
  ASSERT_EQ(list.items.size(), 11u);
  const int64_t ints[] = {255, 65535, -1, 0, -2, 4294967297};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(pickle->values[list.items[i]].kind, PickleKind::kInt);
    EXPECT_EQ(pickle->values[list.items[i]].integer, ints[i]) << i;
  }
  EXPECT_EQ(pickle->values[list.items[6]].real, 1.5);
  EXPECT_EQ(pickle->values[list.items[7]].integer, 1);
  EXPECT_EQ(pickle->values[list.items[8]].integer, 0);
  EXPECT_EQ(pickle->values[list.items[8]].kind, PickleKind::kBool);
  EXPECT_EQ(pickle->values[list.items[9]].kind, PickleKind::kNone);
  EXPECT_EQ(pickle->values[list.items[10]].text, "hi");
}

TEST(PickleTest, MemoSharesValues) {
  // {"a": [], "b": the same list}, then "x" appended through the memo.
  const std::string opcodes = PickleWriter()
                                  .Raw("}(")
                                  .Text("a")
                                  .Raw("]q\x05")
                                  .Text("b")
                                  .Raw("h\x05")
                                  .Text("x")
                                  .Raw("au.")
                                  .bytes();
  const auto pickle = Read(opcodes);
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  const PickleValue& dict = pickle->values[pickle->root];
  ASSERT_EQ(dict.items.size(), 4u);
  EXPECT_EQ(dict.items[1], dict.items[3]);
  EXPECT_EQ(pickle->values[dict.items[1]].items.size(), 1u);
}

TEST(PickleTest, AListInsideItselfIsJustData) {
  const auto pickle = Read(
      "\x80\x02]q\x01h\x01"
      "a.");
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  EXPECT_EQ(pickle->values[pickle->root].items, std::vector<uint32_t>{pickle->root});
}

TEST(PickleTest, CallsAreNotMade) {
  const auto pickle =
      Read(PickleWriter().Global("torch._utils", "_rebuild_parameter").Raw(")R.").bytes());
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  EXPECT_EQ(pickle->values[pickle->root].kind, PickleKind::kCall);
}

TEST(PickleTest, GlobalsOutsideTheListAreRefusedByName) {
  const std::pair<std::string, std::string> globals[] = {
      {"os", "system"},
      {"posix", "system"},
      {"builtins", "eval"},
      {"__builtin__", "getattr"},
      {"torch", "load"},
      {"torch", "QInt8Storage"},
      {"torch._utils", "_rebuild_tensor"},
      {"torch.serialization", "load"},
      {"collections", "OrderedDict2"},
      {"numpy.core.multiarray", "_reconstruct"},
  };
  for (const auto& [module, name] : globals) {
    const auto pickle = Read(PickleWriter().Global(module, name).Raw("(tR.").bytes());
    ASSERT_FALSE(pickle.ok()) << module << "." << name;
    EXPECT_THAT(std::string(pickle.status().message()),
                HasSubstr("the global " + module + "." + name + " is refused"));
  }
}

TEST(PickleTest, OpcodesOfOtherWritersAreRefusedByName) {
  EXPECT_THAT(ErrorOf("(ios\nsystem\n."), HasSubstr("INST"));
  EXPECT_THAT(ErrorOf("(o."), HasSubstr("OBJ"));
  EXPECT_THAT(ErrorOf("]\x81."), HasSubstr("NEWOBJ"));
  EXPECT_THAT(ErrorOf("\x93."), HasSubstr("STACK_GLOBAL"));
  EXPECT_THAT(ErrorOf("\x82\x01."), HasSubstr("EXT"));
  EXPECT_THAT(ErrorOf("Pid\n."), HasSubstr("PERSID"));
  EXPECT_THAT(ErrorOf("\xff."), HasSubstr("opcode 0xff"));
}

TEST(PickleTest, OtherProtocolsAreRefused) {
  for (const std::string bytes : {"\x80\x04].", "\x80\x03].", "].", "(dp0\n."}) {
    const auto pickle = Read(bytes);
    ASSERT_FALSE(pickle.ok());
    EXPECT_THAT(std::string(pickle.status().message()), HasSubstr("expected protocol 2"));
  }
  EXPECT_FALSE(Read("").ok());
  EXPECT_FALSE(Read("\x80").ok());
}

TEST(PickleTest, DamagedStacksAreRefused) {
  for (const char* opcodes :
       {".",     "].].",  "]]",   "](.",  "t.",     "u.",     "s.",    "e.",
        "a.",    "R.",    "b.",   "Q.",   "q\x01.", "h\x01.", "\x86.", "](\x85.",
        "}(Nu.", "](sN.", "NNa.", "]Nb.", "N)R.",   "}NR."}) {
    EXPECT_NE(ErrorOf(opcodes), "no error") << opcodes;
  }
}

TEST(PickleTest, TruncationAtEveryByteIsRefused) {
  const std::string whole =
      PickleOf({{.name = "a", .count = 4, .shape = {2, 2}, .stride = {}, .dtype = ""},
                {.name = "b", .count = 4, .shape = {4}, .stride = {}, .dtype = "float32"}});
  ASSERT_TRUE(Read(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(Read(whole.substr(0, size)).ok()) << size;
  }
}

TEST(PickleTest, SizesAreBounded) {
  // A text longer than the file.
  EXPECT_THAT(ErrorOf("X\xff\xff\xff\xff."), HasSubstr("needs 4294967295 more bytes"));
  // A memo slot that would need gigabytes.
  EXPECT_THAT(ErrorOf("]r\xff\xff\xff\xff."), HasSubstr("memo slot 4294967295"));
  EXPECT_THAT(ErrorOf("\x8a\xff."), HasSubstr("an integer of 255 bytes"));
  EXPECT_THAT(ErrorOf(std::string(70000, 'N')), HasSubstr("values on the stack"));
  EXPECT_THAT(ErrorOf(std::string(70000, '(')), HasSubstr("open MARKs"));
  EXPECT_THAT(ErrorOf("c" + std::string(5000, 'x')), HasSubstr("global"));
  // Nested a million levels deep without recursion.
  std::string values = "]";
  for (int i = 0; i < (1 << 20); ++i) values += "]a";
  EXPECT_THAT(ErrorOf(values), HasSubstr("values"));
  EXPECT_THAT(std::string(Read(std::string((16 << 20) + 1, 'N')).status().message()),
              HasSubstr("at most 16777216 are read"));
}

TEST(PickleTest, ManyCallsOnOneLargeTupleDoNotCopyIt) {
  // 60,000 arguments kept in the memo, then 5,000 calls on them: 8 bytes a call, not 240,000.
  std::string bytes = PickleWriter().Raw("](").bytes();
  bytes += "(" + std::string(60000, 'N') + "tq\x01";
  bytes += PickleWriter().Global("torch._utils", "_rebuild_parameter").bytes().substr(2) + "q\x02";
  for (int i = 0; i < 5000; ++i) bytes += "h\x02h\x01R";
  bytes += "e.";
  const auto pickle = Read(bytes);
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  size_t items = 0;
  for (const PickleValue& value : pickle->values) items += value.items.size();
  EXPECT_LT(items, 100000u);
}

}  // namespace
}  // namespace tandem
