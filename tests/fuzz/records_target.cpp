// tests/fuzz/records_target.cpp -- receipts, COMMITTED, LATEST and UNUSABLE: what is taken is exactly what would be
// written. The first byte of an input chooses the record.
#include "base/error.h"
#include "checkpoint/format.h"
#include "checkpoint/retention.h"
#include "fuzz/target.h"
#include "unit/checkpoint/fixture.h"

namespace trainctl::fuzz {

bool accepts(std::string_view input) {
  if (input.empty()) return false;
  const std::string_view text = input.substr(1);
  const auto is_canonical = [&](const auto& record) {
    law(to_text(record) == text, "a record that carries its digest is canonical");
    return true;
  };
  try {
    switch (input[0] & 3) {
      case 0:
        return is_canonical(receipt_from_text(text, "receipt"));
      case 1:
        return is_canonical(committed_from_text(text, "COMMITTED"));
      case 2:
        return is_canonical(latest_from_text(text, "LATEST"));
      default:
        return is_canonical(unusable_from_text(text, "UNUSABLE"));
    }
  } catch (const Error& e) {
    law(e.kind() == ErrorKind::checkpoint, "a record is refused as a checkpoint's fault");
    return false;
  }
}

std::vector<std::string> valid_inputs() {
  testing::ScratchFolder folder;
  testing::save_once(folder.path(), 2, 1, 1);
  const std::filesystem::path checkpoint = folder.path() / folder_name_of(1);
  mark_unusable(checkpoint, "a reason", "a detector", "evidence");
  return {
      "0" + testing::file_bytes(checkpoint / receipt_path(0)), "0" + testing::file_bytes(checkpoint / receipt_path(1)),
      "1" + testing::file_bytes(checkpoint / kCommittedName), "2" + testing::file_bytes(folder.path() / kLatestName),
      "3" + testing::file_bytes(checkpoint / kUnusableName)};
}

}  // namespace trainctl::fuzz
