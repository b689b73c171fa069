#include "common/model/pth/pickle.h"

#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/model/pth/pickle_opcodes.h"
#include "common/model/pth/torch_types.h"

namespace tandem {
namespace {

using namespace pickle;  // the opcodes

constexpr size_t kMaxPickleBytes = size_t{16} << 20;
constexpr size_t kMaxValues = size_t{1} << 20;
constexpr size_t kMaxStack = size_t{1} << 16;  // pickle writes containers in batches of 1,000
constexpr size_t kMaxGlobalBytes = 128;

class Machine final {
 public:
  Machine(absl::Span<const uint8_t> pickle, const std::string& file)
      : pickle_(pickle), file_(file) {}

  absl::StatusOr<Pickle> Run() {
    RETURN_IF_ERROR(ReadProtocol());
    while (!stopped_) {
      opcode_at_ = at_;
      ASSIGN_OR_RETURN(const uint8_t opcode, Byte());
      ASSIGN_OR_RETURN(bool known, RunScalar(opcode));
      if (!known) {
        ASSIGN_OR_RETURN(known, RunStack(opcode));
      }
      if (!known) {
        ASSIGN_OR_RETURN(known, RunContainer(opcode));
      }
      if (!known) {
        return Refuse(absl::StrFormat("opcode 0x%02x (%s) is not one that torch.save writes",
                                      opcode, OpcodeName(opcode)));
      }
    }
    return std::move(result_);
  }

 private:
  absl::Status Refuse(absl::string_view problem) const {
    return absl::InvalidArgumentError(
        absl::StrCat(file_, ": data.pkl, byte ", opcode_at_, ": ", problem));
  }

  // The next `count` bytes of the pickle.
  absl::StatusOr<const uint8_t*> Take(size_t count) {
    if (count > pickle_.size() - at_) {
      return Refuse(absl::StrCat("needs ", count, " more bytes, ", pickle_.size() - at_,
                                 " are left (truncated?)"));
    }
    const uint8_t* data = pickle_.data() + at_;
    at_ += count;
    return data;
  }

  absl::StatusOr<uint8_t> Byte() {
    ASSIGN_OR_RETURN(const uint8_t* data, Take(1));
    return *data;
  }

  // A little-endian unsigned number of up to 8 bytes.
  absl::StatusOr<uint64_t> Number(size_t width) {
    ASSIGN_OR_RETURN(const uint8_t* data, Take(width));
    uint64_t value = 0;
    for (size_t i = 0; i < width; ++i) value |= static_cast<uint64_t>(data[i]) << (8 * i);
    return value;
  }

  // Up to the next newline, which is consumed.
  absl::StatusOr<absl::string_view> Line() {
    const char* start = reinterpret_cast<const char*>(pickle_.data() + at_);
    const absl::string_view rest(start, pickle_.size() - at_);
    const size_t end = rest.substr(0, kMaxGlobalBytes + 1).find('\n');
    if (end == absl::string_view::npos) return Refuse("a global's name is too long or cut off");
    at_ += end + 1;
    return rest.substr(0, end);
  }

  absl::Status Push(uint32_t index) {
    if (stack_.size() >= kMaxStack) {
      return Refuse(absl::StrCat("more than ", kMaxStack, " values on the stack"));
    }
    stack_.push_back(index);
    return absl::OkStatus();
  }

  absl::Status PushValue(PickleValue value) {
    if (result_.values.size() >= kMaxValues) {
      return Refuse(absl::StrCat("more than ", kMaxValues, " values"));
    }
    result_.values.push_back(std::move(value));
    return Push(static_cast<uint32_t>(result_.values.size() - 1));
  }

  absl::Status PushInt(int64_t value, PickleKind kind = PickleKind::kInt) {
    return PushValue({.kind = kind, .integer = value, .real = 0, .text = {}, .items = {}});
  }
  absl::Status PushItems(PickleKind kind, std::vector<uint32_t> items) {
    return PushValue(
        {.kind = kind, .integer = 0, .real = 0, .text = {}, .items = std::move(items)});
  }
  absl::Status PushText(PickleKind kind, absl::string_view text) {
    return PushValue({.kind = kind, .integer = 0, .real = 0, .text = text, .items = {}});
  }

  // The lowest stack position that belongs to the innermost open MARK: pops stop there.
  size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }

  absl::StatusOr<std::vector<uint32_t>> Pop(size_t count) {
    if (stack_.size() - Floor() < count) return Refuse("takes more values than the stack holds");
    std::vector<uint32_t> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }

  absl::StatusOr<std::vector<uint32_t>> PopToMark() {
    if (marks_.empty()) return Refuse("closes a MARK that was never opened");
    ASSIGN_OR_RETURN(auto items, Pop(stack_.size() - marks_.back()));
    marks_.pop_back();
    return items;
  }

  // The value on top of the stack, which has to be of `kind`.
  absl::StatusOr<PickleValue*> Top(PickleKind kind, absl::string_view what) {
    if (stack_.size() <= Floor()) return Refuse("uses an empty stack");
    PickleValue* value = &result_.values[stack_.back()];
    if (value->kind != kind) return Refuse(absl::StrCat("expects ", what, " on the stack"));
    return value;
  }

  absl::Status Collect(PickleKind kind, absl::StatusOr<std::vector<uint32_t>> items) {
    if (!items.ok()) return items.status();
    return PushItems(kind, *std::move(items));
  }

  static absl::StatusOr<bool> Done(const absl::Status& status) {
    if (!status.ok()) return status;
    return true;
  }

  absl::Status ReadProtocol();
  absl::Status ReadGlobal();
  absl::Status ReadText();
  absl::Status ReadFloat();
  absl::Status ReadLong();
  absl::Status Put(size_t width);
  absl::Status Get(size_t width);
  absl::Status Extend(PickleKind kind, bool many);
  absl::Status Reduce();
  absl::Status Build();
  absl::Status Stop();
  // Each runs the opcode and returns true, or returns false when it is not one of its group.
  absl::StatusOr<bool> RunScalar(uint8_t opcode);
  absl::StatusOr<bool> RunStack(uint8_t opcode);
  absl::StatusOr<bool> RunContainer(uint8_t opcode);

  absl::Span<const uint8_t> pickle_;
  const std::string& file_;
  size_t at_ = 0;
  size_t opcode_at_ = 0;
  bool stopped_ = false;
  Pickle result_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;
  std::vector<int64_t> memo_;  // value index, or -1
};

absl::Status Machine::ReadProtocol() {
  ASSIGN_OR_RETURN(const uint64_t header, Number(2));
  if ((header & 0xFF) != kProto || header >> 8 != 2) {
    return Refuse(absl::StrFormat(
        "begins with 0x%02x 0x%02x; expected protocol 2 (0x80 0x02), as torch.save writes it",
        header & 0xFF, header >> 8));
  }
  return absl::OkStatus();
}

absl::Status Machine::ReadGlobal() {
  const size_t start = at_;
  ASSIGN_OR_RETURN(const absl::string_view module, Line());
  ASSIGN_OR_RETURN(const absl::string_view name, Line());
  const absl::string_view global(reinterpret_cast<const char*>(pickle_.data() + start),
                                 at_ - start - 1);
  if (!IsCheckpointGlobal(global)) {
    return Refuse(absl::StrCat("the global ", absl::CHexEscape(module), ".", absl::CHexEscape(name),
                               " is refused: a checkpoint holds tensors and plain values only"));
  }
  return PushText(PickleKind::kGlobal, global);
}

absl::Status Machine::ReadText() {
  ASSIGN_OR_RETURN(const uint64_t size, Number(4));
  ASSIGN_OR_RETURN(const uint8_t* data, Take(size));
  return PushText(PickleKind::kText, {reinterpret_cast<const char*>(data), size});
}

absl::Status Machine::ReadFloat() {
  ASSIGN_OR_RETURN(const uint64_t little, Number(8));
  const uint64_t bits = __builtin_bswap64(little);  // the one big-endian item of a pickle
  double real;
  std::memcpy(&real, &bits, sizeof(real));
  return PushValue(
      {.kind = PickleKind::kFloat, .integer = 0, .real = real, .text = {}, .items = {}});
}

absl::Status Machine::ReadLong() {
  ASSIGN_OR_RETURN(const uint8_t width, Byte());
  if (width > 8) return Refuse(absl::StrCat("an integer of ", width, " bytes; expected at most 8"));
  ASSIGN_OR_RETURN(uint64_t bits, Number(width));
  if (width > 0 && width < 8 && (bits >> (8 * width - 1)) != 0) bits |= ~uint64_t{0} << (8 * width);
  return PushInt(static_cast<int64_t>(bits));
}

absl::Status Machine::Put(size_t width) {
  ASSIGN_OR_RETURN(const uint64_t slot, Number(width));
  if (stack_.size() <= Floor()) return Refuse("stores the top of an empty stack");
  if (slot >= kMaxValues) {
    return Refuse(absl::StrCat("memo slot ", slot, "; expected less than ", kMaxValues));
  }
  if (slot >= memo_.size()) memo_.resize(slot + 1, -1);
  memo_[slot] = stack_.back();
  return absl::OkStatus();
}

absl::Status Machine::Get(size_t width) {
  ASSIGN_OR_RETURN(const uint64_t slot, Number(width));
  if (slot >= memo_.size() || memo_[slot] < 0) {
    return Refuse(absl::StrCat("reads memo slot ", slot, ", which was never written"));
  }
  return Push(static_cast<uint32_t>(memo_[slot]));
}

absl::Status Machine::Extend(PickleKind kind, bool many) {
  const bool dict = kind == PickleKind::kDict;
  ASSIGN_OR_RETURN(const auto items, many ? PopToMark() : Pop(dict ? 2 : 1));
  if (dict && items.size() % 2 != 0) return Refuse("a key without a value");
  ASSIGN_OR_RETURN(PickleValue * target, Top(kind, dict ? "a dictionary" : "a list"));
  target->items.insert(target->items.end(), items.begin(), items.end());
  return absl::OkStatus();
}

absl::Status Machine::Reduce() {
  ASSIGN_OR_RETURN(const PickleValue* arguments, Top(PickleKind::kTuple, "an argument tuple"));
  const bool empty = arguments->items.empty();
  const uint32_t tuple = stack_.back();
  stack_.pop_back();
  ASSIGN_OR_RETURN(const PickleValue* function, Top(PickleKind::kGlobal, "a function"));
  const uint32_t global = stack_.back();
  stack_.pop_back();
  if (function->text != kOrderedDict) return PushItems(PickleKind::kCall, {global, tuple});
  if (!empty) return Refuse("OrderedDict with arguments; expected an empty one");
  return PushItems(PickleKind::kDict, {});
}

// Attributes of a dictionary (the `_metadata` of a state_dict) are dropped; nothing else has any.
absl::Status Machine::Build() {
  RETURN_IF_ERROR(Top(PickleKind::kDict, "a dictionary of attributes").status());
  stack_.pop_back();
  return Top(PickleKind::kDict, "a dictionary that takes attributes").status();
}

absl::Status Machine::Stop() {
  if (stack_.size() != 1 || !marks_.empty()) {
    return Refuse(absl::StrCat("ends with ", stack_.size(), " values; expected one"));
  }
  if (at_ != pickle_.size()) {
    return Refuse(absl::StrCat(pickle_.size() - at_, " bytes follow the end; expected none"));
  }
  result_.root = stack_[0];
  stopped_ = true;
  return absl::OkStatus();
}

absl::StatusOr<bool> Machine::RunScalar(uint8_t opcode) {
  absl::StatusOr<uint64_t> number = 0;
  switch (opcode) {
    case kNone:
      return Done(PushItems(PickleKind::kNone, {}));
    case kNewTrue:
    case kNewFalse:
      return Done(PushInt(opcode == kNewTrue ? 1 : 0, PickleKind::kBool));
    case kBinInt1:
    case kBinInt2:
      number = Number(opcode == kBinInt1 ? 1 : 2);
      return number.ok() ? Done(PushInt(static_cast<int64_t>(*number))) : number.status();
    case kBinInt:
      number = Number(4);
      return number.ok() ? Done(PushInt(static_cast<int32_t>(*number))) : number.status();
    case kLong1:
      return Done(ReadLong());
    case kBinFloat:
      return Done(ReadFloat());
    case kBinUnicode:
      return Done(ReadText());
    case kGlobal:
      return Done(ReadGlobal());
    default:
      return false;
  }
}

absl::StatusOr<bool> Machine::RunStack(uint8_t opcode) {
  switch (opcode) {
    case kMark:
      if (marks_.size() >= kMaxStack) return Refuse("too many open MARKs");
      marks_.push_back(stack_.size());
      return true;
    case kBinPut:
    case kLongBinPut:
      return Done(Put(opcode == kBinPut ? 1 : 4));
    case kBinGet:
    case kLongBinGet:
      return Done(Get(opcode == kBinGet ? 1 : 4));
    case kReduce:
      return Done(Reduce());
    case kBuild:
      return Done(Build());
    case kStop:
      return Done(Stop());
    default:
      return false;
  }
}

absl::StatusOr<bool> Machine::RunContainer(uint8_t opcode) {
  switch (opcode) {
    case kEmptyDict:
      return Done(PushItems(PickleKind::kDict, {}));
    case kEmptyList:
      return Done(PushItems(PickleKind::kList, {}));
    case kEmptyTuple:
      return Done(PushItems(PickleKind::kTuple, {}));
    case kTuple:
      return Done(Collect(PickleKind::kTuple, PopToMark()));
    case kTuple1:
    case kTuple2:
    case kTuple3:
      return Done(Collect(PickleKind::kTuple, Pop(opcode - kTuple1 + 1u)));
    case kBinPersId:
      return Done(Collect(PickleKind::kPersistent, Pop(1)));
    case kSetItem:
    case kSetItems:
      return Done(Extend(PickleKind::kDict, opcode == kSetItems));
    case kAppend:
    case kAppends:
      return Done(Extend(PickleKind::kList, opcode == kAppends));
    default:
      return false;
  }
}

}  // namespace

bool IsCheckpointGlobal(absl::string_view global) {
  return global == kOrderedDict || global == kRebuildTensorV2 || global == kRebuildTensorV3 ||
         global == kRebuildParameter || global == kUntypedStorage ||
         StorageDType(global).has_value() || TorchDType(global).has_value();
}

absl::StatusOr<Pickle> ReadPickle(absl::Span<const uint8_t> pickle, const std::string& file) {
  if (pickle.size() > kMaxPickleBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, ": data.pkl has ", pickle.size(), " bytes; at most ", kMaxPickleBytes, " are read"));
  }
  return Machine(pickle, file).Run();
}

}  // namespace tandem
