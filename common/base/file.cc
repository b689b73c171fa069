#include "common/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tandem {

absl::Status ErrnoStatus(int error, absl::string_view what) {
  return absl::ErrnoToStatus(error, what);
}

MappedFile::MappedFile(std::string path, const uint8_t* data, size_t size)
    : path_(std::move(path)), data_(data), size_(size) {}

MappedFile::~MappedFile() {
  if (size_ > 0) munmap(const_cast<uint8_t*>(data_), size_);
}

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  struct stat st;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    close(fd);
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  }
  const size_t size = static_cast<size_t>(st.st_size);
  void* data = nullptr;
  if (size > 0) {
    data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      const int error = errno;
      close(fd);
      return ErrnoStatus(error, absl::StrCat("cannot map ", path));
    }
  }
  close(fd);
  return std::unique_ptr<MappedFile>(new MappedFile(path, static_cast<const uint8_t*>(data), size));
}

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  if (file->bytes().size() > max_bytes) {
    return absl::OutOfRangeError(absl::StrCat(path, " has ", file->bytes().size(),
                                              " bytes, at most ", max_bytes, " are read"));
  }
  return std::string(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
}

absl::StatusOr<std::string> ReadLine(const std::string& path) {
  // Files of /proc report size 0, so they are read, not mapped.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  char buffer[4096];
  const ssize_t n = read(fd, buffer, sizeof(buffer));
  const int error = errno;
  close(fd);
  if (n < 0) return ErrnoStatus(error, absl::StrCat("cannot read ", path));
  return std::string(absl::StripAsciiWhitespace(absl::string_view(buffer, n)));
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view text) {
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  std::FILE* file = std::fopen(temporary.c_str(), "we");
  if (file == nullptr) return ErrnoStatus(errno, absl::StrCat("cannot write ", temporary));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(temporary.c_str());
    return ErrnoStatus(error, absl::StrCat("cannot write ", path));
  }
  return absl::OkStatus();
}

}  // namespace tandem
