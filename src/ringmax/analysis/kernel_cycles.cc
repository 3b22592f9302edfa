#include "ringmax/analysis/kernel_cycles.h"

#include <algorithm>
#include <charconv>

#include "ringmax/base/error.h"
#include "ringmax/base/file.h"

namespace ringmax::analysis {
namespace {

// Cycles without matrix work that end a stretch, and the shortest that counts.
constexpr std::size_t kGap = 150;
constexpr std::size_t kShortest = 100;

// Columns of the file.
constexpr std::size_t kMatmul = 0;
constexpr std::size_t kMatpush = 1;
constexpr std::size_t kFill = 7;
constexpr std::size_t kSpill = 9;
constexpr std::size_t kColumns = 11;

using Row = std::vector<std::int64_t>;

// The numbers of a line; empty when it is no line of kColumns numbers.
Row numbers(std::string_view line) {
  Row row;
  const char* at = line.data();
  const char* end = at + line.size();
  while (true) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r')) ++at;
    if (at == end) break;
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(at, end, value);
    if (error != std::errc()) return {};
    row.push_back(value);
    at = stop;
  }
  return row.size() == kColumns ? row : Row();
}

}  // namespace

double KernelCycles::utilisation() const {
  double best_work = 0;
  double result = 0;
  for (const MatrixStretch& stretch : stretches) {
    const double work = stretch.busy * static_cast<double>(stretch.cycles);
    if (work <= best_work) continue;
    best_work = work;
    result = work / static_cast<double>(stretch.cycles + overhead);
  }
  return result;
}

KernelCycles parse_kernel_cycles(std::string_view text) {
  std::vector<Row> rows;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    Row row = numbers(text.substr(0, end));
    if (!row.empty()) rows.push_back(std::move(row));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  // The first are the capacities.
  if (rows.empty() || rows[0][kMatmul] <= 0) {
    fail_invalid("this is no table of static utilization by bundle");
  }
  const auto capacity = static_cast<double>(rows[0][kMatmul]);
  rows.erase(rows.begin());
  KernelCycles result;
  result.cycles = static_cast<std::int64_t>(rows.size());
  result.overhead = result.cycles;
  std::size_t first = rows.size();
  std::size_t last = 0;
  const auto close = [&] {
    if (first == rows.size() || last + 1 - first < kShortest) return;
    MatrixStretch stretch;
    stretch.cycles = static_cast<std::int64_t>(last + 1 - first);
    std::int64_t slots = 0;
    for (std::size_t i = first; i <= last; ++i) slots += rows[i][kMatmul];
    stretch.busy = static_cast<double>(slots) /
                   (capacity * static_cast<double>(stretch.cycles));
    result.overhead -= stretch.cycles;
    result.stretches.push_back(stretch);
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    result.spills += rows[i][kSpill];
    result.fills += rows[i][kFill];
    if (rows[i][kMatmul] == 0 && rows[i][kMatpush] == 0) continue;
    if (first != rows.size() && i - last > kGap) {
      close();
      first = rows.size();
    }
    if (first == rows.size()) first = i;
    last = i;
  }
  close();
  return result;
}

std::optional<KernelCycles> find_kernel_cycles(const std::string& directory,
                                               const std::string& instruction) {
  // "TIME-INSTRUCTION-NN-pre-delay_hlo-static-per-bundle-utilization.txt"
  const std::string middle = "-" + instruction + "-";
  constexpr std::string_view kEnd =
      "-pre-delay_hlo-static-per-bundle-utilization.txt";
  for (const std::string& path : list_files(directory)) {
    if (path.find(middle) != std::string::npos && path.ends_with(kEnd)) {
      return parse_kernel_cycles(read_file(path));
    }
  }
  return std::nullopt;
}

}  // namespace ringmax::analysis
