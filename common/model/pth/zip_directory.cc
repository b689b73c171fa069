#include "common/model/pth/zip_directory.h"

#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"

namespace tandem {
namespace {

// Signatures, and sizes of the fixed part, of the records of the zip format.
constexpr uint32_t kLocal = 0x04034B50;
constexpr uint32_t kEntry = 0x02014B50;
constexpr uint32_t kEnd = 0x06054B50;
constexpr uint32_t kEnd64 = 0x06064B50;
constexpr uint32_t kLocator64 = 0x07064B50;
constexpr uint64_t kLocalBytes = 30;
constexpr uint64_t kEntryBytes = 46;
constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kEnd64Bytes = 56;
constexpr uint64_t kLocator64Bytes = 20;
constexpr uint16_t kExtra64 = 1;        // the ZIP64 extra field
constexpr uint64_t kIn64 = 0xFFFFFFFF;  // "this number stands in the ZIP64 field"
constexpr uint64_t kCountIn64 = 0xFFFF;
constexpr size_t kMaxNameBytes = 1024;

// Where the central directory lies: its entries fill [start, end).
struct Directory {
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t count = 0;
};

// A directory entry; sizes and offset after the ZIP64 field was applied.
struct Entry {
  absl::string_view name;
  uint64_t flags = 0;
  uint64_t method = 0;
  uint64_t stored_size = 0;
  uint64_t size = 0;
  uint64_t offset = 0;      // of the local header
  uint64_t total_size = 0;  // of this entry in the directory
};

class Archive final {
 public:
  Archive(absl::Span<const uint8_t> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  absl::StatusOr<Directory> FindDirectory() const;
  absl::StatusOr<Entry> ReadEntry(uint64_t at, uint64_t end) const;
  // The content of a member, which lies before the directory.
  absl::StatusOr<absl::Span<const uint8_t>> ReadMember(const Entry& entry, uint64_t end) const;
  absl::Status Damaged(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(file_, ": no sound zip archive: ", what));
  }

 private:
  // A little-endian number of `width` bytes; the caller has checked the bounds.
  uint64_t Number(uint64_t at, int width) const {
    uint64_t value = 0;
    for (int i = 0; i < width; ++i) value |= static_cast<uint64_t>(bytes_[at + i]) << (8 * i);
    return value;
  }
  absl::string_view Text(uint64_t at, uint64_t size) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + at, size};
  }
  absl::Status Refuse(absl::string_view name, absl::string_view problem) const {
    return absl::InvalidArgumentError(absl::StrCat(
        file_, ": zip member \"", absl::CHexEscape(name.substr(0, 256)), "\": ", problem));
  }
  absl::StatusOr<Directory> ReadEnd64(uint64_t locator) const;
  absl::Status ApplyExtra64(uint64_t at, uint64_t size, Entry* entry) const;

  absl::Span<const uint8_t> bytes_;
  const std::string& file_;
};

absl::StatusOr<Directory> Archive::FindDirectory() const {
  const uint64_t size = bytes_.size();
  if (size < kEndBytes || Number(size - kEndBytes, 4) != kEnd || Number(size - 2, 2) != 0) {
    return Damaged("it does not end with a zip directory (truncated?)");
  }
  const uint64_t end = size - kEndBytes;
  const uint64_t count = Number(end + 10, 2);
  const uint64_t length = Number(end + 12, 4);
  const uint64_t start = Number(end + 16, 4);
  if (end >= kLocator64Bytes && Number(end - kLocator64Bytes, 4) == kLocator64) {
    return ReadEnd64(end - kLocator64Bytes);
  }
  if (count == kCountIn64 || length == kIn64 || start == kIn64) {
    return Damaged("its ZIP64 record is missing");
  }
  if (start > end || length != end - start) {
    return Damaged(
        absl::StrCat("a directory of ", length, " bytes at ", start, "; expected to end at ", end));
  }
  return Directory{.start = start, .end = end, .count = count};
}

absl::StatusOr<Directory> Archive::ReadEnd64(uint64_t locator) const {
  const uint64_t at = Number(locator + 8, 8);
  if (locator < kEnd64Bytes || at > locator - kEnd64Bytes || Number(at, 4) != kEnd64) {
    return Damaged("its ZIP64 record is not where the locator says");
  }
  const uint64_t count = Number(at + 32, 8);
  const uint64_t length = Number(at + 40, 8);
  const uint64_t start = Number(at + 48, 8);
  if (start > at || length != at - start) {
    return Damaged(
        absl::StrCat("a directory of ", length, " bytes at ", start, "; expected to end at ", at));
  }
  return Directory{.start = start, .end = at, .count = count};
}

absl::StatusOr<Entry> Archive::ReadEntry(uint64_t at, uint64_t end) const {
  if (end - at < kEntryBytes || Number(at, 4) != kEntry) {
    return Damaged("its directory ends before the last member");
  }
  const uint64_t name_size = Number(at + 28, 2);
  const uint64_t extra_size = Number(at + 30, 2);
  Entry entry = {.name = {},
                 .flags = Number(at + 8, 2),
                 .method = Number(at + 10, 2),
                 .stored_size = Number(at + 20, 4),
                 .size = Number(at + 24, 4),
                 .offset = Number(at + 42, 4),
                 .total_size = kEntryBytes + name_size + extra_size + Number(at + 32, 2)};
  if (entry.total_size > end - at) return Damaged("its directory is cut off");
  entry.name = Text(at + kEntryBytes, name_size);
  if (name_size > kMaxNameBytes) {
    return Refuse(entry.name, absl::StrCat("a name of ", name_size, " bytes; expected at most ",
                                           kMaxNameBytes));
  }
  RETURN_IF_ERROR(ApplyExtra64(at + kEntryBytes + name_size, extra_size, &entry));
  return entry;
}

// The ZIP64 field holds only the numbers that the entry itself has no room for, in this order.
absl::Status Archive::ApplyExtra64(uint64_t at, uint64_t size, Entry* entry) const {
  const uint64_t end = at + size;
  while (end - at >= 4 && Number(at, 2) != kExtra64) {
    const uint64_t field = 4 + Number(at + 2, 2);
    if (field > end - at) return Refuse(entry->name, "its extra field is cut off");
    at += field;
  }
  uint64_t left = end - at >= 4 ? Number(at + 2, 2) : 0;
  at += 4;
  for (uint64_t* number : {&entry->size, &entry->stored_size, &entry->offset}) {
    if (*number != kIn64) continue;
    if (left < 8 || at > end || end - at < 8) {
      return Refuse(entry->name, "its ZIP64 field is missing or cut off");
    }
    *number = Number(at, 8);
    at += 8;
    left -= 8;
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Span<const uint8_t>> Archive::ReadMember(const Entry& entry,
                                                              uint64_t end) const {
  if ((entry.flags & 1) != 0) return Refuse(entry.name, "encrypted; expected a plain member");
  if (entry.method != 0) {
    return Refuse(entry.name, absl::StrCat("compressed (method ", entry.method,
                                           "); expected a stored member, as torch.save writes it"));
  }
  if (entry.stored_size != entry.size) {
    return Refuse(entry.name, absl::StrCat("stored in ", entry.stored_size, " bytes, but ",
                                           entry.size, " bytes long"));
  }
  if (entry.offset > end || end - entry.offset < kLocalBytes || Number(entry.offset, 4) != kLocal ||
      Number(entry.offset + 8, 2) != entry.method) {
    return Refuse(entry.name, absl::StrCat("no local header at offset ", entry.offset));
  }
  const uint64_t name_size = Number(entry.offset + 26, 2);
  const uint64_t header = kLocalBytes + name_size + Number(entry.offset + 28, 2);
  if (header > end - entry.offset || Text(entry.offset + kLocalBytes, name_size) != entry.name) {
    return Refuse(entry.name, "its local header contradicts the directory");
  }
  const uint64_t start = entry.offset + header;
  if (entry.size > end - start) {
    return Refuse(entry.name, absl::StrCat(entry.size, " bytes at offset ", start,
                                           "; the members end at ", end, " (truncated?)"));
  }
  return bytes_.subspan(start, entry.size);
}

}  // namespace

absl::StatusOr<std::vector<ZipMember>> ReadZipDirectory(absl::Span<const uint8_t> archive,
                                                        const std::string& file) {
  const Archive zip(archive, file);
  ASSIGN_OR_RETURN(const Directory directory, zip.FindDirectory());
  std::vector<ZipMember> members;
  std::set<absl::string_view> names;
  uint64_t at = directory.start;
  for (uint64_t i = 0; i < directory.count; ++i) {
    ASSIGN_OR_RETURN(const Entry entry, zip.ReadEntry(at, directory.end));
    ASSIGN_OR_RETURN(const auto bytes, zip.ReadMember(entry, directory.start));
    if (!names.insert(entry.name).second) {
      return absl::InvalidArgumentError(absl::StrCat(file, ": zip member \"",
                                                     absl::CHexEscape(entry.name),
                                                     "\": appears twice in the archive"));
    }
    members.push_back({.name = std::string(entry.name), .bytes = bytes});
    at += entry.total_size;
  }
  if (at != directory.end) {
    return zip.Damaged(absl::StrCat("its directory goes on after ", directory.count, " members"));
  }
  return members;
}

}  // namespace tandem
