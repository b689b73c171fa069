#include "common/model/pth/zip_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "tests/unit/model/file_writers.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::vector<ZipMember>> Read(const std::string& bytes) {
  return ReadZipDirectory({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "x.zip");
}

std::string Content(const ZipMember& member) {
  return std::string(member.bytes.begin(), member.bytes.end());
}

TEST(ZipDirectoryTest, ReadsPlainAndZip64Archives) {
  for (bool zip64 : {false, true}) {
    const std::string archive = ZipOf(
        {{.name = "a", .bytes = "one"}, {.name = "b/c", .bytes = ""}, {.name = "d", .bytes = "x"}},
        zip64);
    const auto members = Read(archive);
    ASSERT_TRUE(members.ok()) << members.status();
    ASSERT_EQ(members->size(), 3u);
    EXPECT_EQ((*members)[0].name, "a");
    EXPECT_EQ(Content((*members)[0]), "one");
    EXPECT_EQ((*members)[1].name, "b/c");
    EXPECT_TRUE((*members)[1].bytes.empty());
    EXPECT_EQ(Content((*members)[2]), "x");
  }
}

// An archive beyond 4 GiB, as every checkpoint from 2.9B on: a member of 5 GiB, then one whose
// offset needs 64 bits. The pages between are never touched, so no memory is used for them.
TEST(ZipDirectoryTest, OffsetsBeyondFourGibibytes) {
  constexpr uint64_t kHole = uint64_t{5} << 30;
  const std::string parts =
      ZipOf({{.name = "big", .bytes = "start", .method = 0, .flags = 0, .hole = kHole},
             {.name = "after", .bytes = "end"}},
            /*zip64=*/true);
  const size_t split = parts.find("start") + 5;
  const size_t size = parts.size() + kHole;
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* bytes = static_cast<uint8_t*>(memory);
  std::memcpy(bytes, parts.data(), split);
  std::memcpy(bytes + split + kHole, parts.data() + split, parts.size() - split);
  const auto members = ReadZipDirectory({bytes, size}, "x.zip");
  EXPECT_TRUE(members.ok()) << members.status();
  if (members.ok()) {
    EXPECT_EQ((*members)[0].bytes.size(), kHole + 5);
    EXPECT_EQ(Content((*members)[1]), "end");
    EXPECT_GT((*members)[1].bytes.data() - bytes, static_cast<std::ptrdiff_t>(kHole));
  }
  munmap(memory, size);
}

TEST(ZipDirectoryTest, TruncationAtEveryByteIsRefused) {
  for (bool zip64 : {false, true}) {
    const std::string whole =
        ZipOf({{.name = "a", .bytes = "one"}, {.name = "b", .bytes = "two"}}, zip64);
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_FALSE(Read(whole.substr(0, size)).ok()) << size;
      EXPECT_FALSE(Read(whole.substr(size + 1)).ok()) << size;
    }
    EXPECT_FALSE(Read(whole + "x").ok());
  }
}

TEST(ZipDirectoryTest, NumbersThatContradictEachOtherAreRefused) {
  const std::string whole = ZipOf({{.name = "a", .bytes = "one"}});
  // Offsets in this archive: local header at 0 (31 bytes with the name), data at 31, entry at 34,
  // end record at 81.
  ASSERT_EQ(whole.size(), 34u + 47 + 22);
  const auto with = [&](size_t at, const std::string& bytes) {
    std::string damaged = whole;
    damaged.replace(at, bytes.size(), bytes);
    const auto members = Read(damaged);
    return members.ok() ? "no error" : std::string(members.status().message());
  };
  EXPECT_EQ(with(0, "PK"), "no error");
  EXPECT_THAT(with(0, "XX"), HasSubstr("no local header at offset 0"));
  EXPECT_THAT(with(8, "\x08"), HasSubstr("no local header"));
  EXPECT_THAT(with(30, "b"), HasSubstr("local header contradicts"));
  EXPECT_THAT(with(28, "\xff\xff"), HasSubstr("local header contradicts"));
  EXPECT_THAT(with(34, "XX"), HasSubstr("directory ends before the last member"));
  EXPECT_THAT(with(34 + 20, "\x02"), HasSubstr("stored in 2 bytes, but 3 bytes long"));
  EXPECT_THAT(with(34 + 20, std::string("\x04\0\0\0\x04", 5)),
              HasSubstr("4 bytes at offset 31; the members end at 34"));
  EXPECT_THAT(with(34 + 20, std::string(4, '\xff') + std::string(4, '\xff')),
              HasSubstr("ZIP64 field is missing"));
  EXPECT_THAT(with(34 + 28, "\xff\xff"), HasSubstr("directory is cut off"));
  EXPECT_THAT(with(34 + 42, "\x22"), HasSubstr("no local header at offset 34"));
  EXPECT_THAT(with(81 + 10, std::string("\x02", 1)),
              HasSubstr("directory ends before the last member"));
  EXPECT_THAT(with(81 + 10, std::string("\0", 1)), HasSubstr("goes on after 0 members"));
  EXPECT_THAT(with(81 + 12, "\x30"), HasSubstr("expected to end at 81"));
  EXPECT_THAT(with(81 + 16, "\xff\xff\xff\xff"), HasSubstr("ZIP64 record is missing"));
  EXPECT_THAT(with(81 + 20, "\x01"), HasSubstr("does not end with a zip directory"));
}

}  // namespace
}  // namespace tandem
