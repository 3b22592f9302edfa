// Option descriptors: an option struct stands beside its owner and declares
// its fields here, each with its name, type, range and one line of help. All
// that reads, prints, documents and checks settings works on the descriptors,
// so that a setting is written down once.
//
//   struct LoopOptions { std::int64_t steps = 10; };
//   void declare_options(OptionSet& set, LoopOptions& options) {
//     set.section("Training loop");
//     set.integer("steps", &options.steps, "optimizer steps", {.min = 1});
//   }
//
// An OptionSet points into the structs it was declared from and must not
// outlive them. It knows nothing of files or of where a value came from.
#ifndef RINGMAX_BASE_OPTION_H_
#define RINGMAX_BASE_OPTION_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/base/dtype.h"
#include "ringmax/base/option_value.h"

namespace ringmax {

enum class OptionKind { kBool, kInt, kNumber, kText, kPath, kChoice, kList };

struct Option {
  std::string name;
  std::vector<std::string> aliases;  // older spellings of the same setting
  std::string section;
  OptionKind kind = OptionKind::kText;
  std::string valid;  // what may be written: "a whole number >= 1"
  std::string help;   // one line, no full stop
  // Reads a value into the struct. Returns "" when it fits; otherwise what is
  // wrong with it, to be read after `name=value: `, and changes nothing.
  std::function<std::string(const RawValue&)> set;
  // The struct's present value; set(get()) changes nothing.
  std::function<RawValue()> get;
};

// One spelling of an enum's value.
template <typename E>
struct Named {
  E value;
  std::string_view name;
};

// The spelling of a value in a table of names; the table holds every value.
template <typename E, std::size_t N>
std::string_view name_of(const Named<E> (&names)[N], E value) {
  for (const Named<E>& each : names) {
    if (each.value == value) return each.name;
  }
  return "?";
}

struct IntRange {
  std::int64_t min = std::numeric_limits<std::int64_t>::min();
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};

struct NumberRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  // min itself is not valid
  bool below_max = false;  // max itself is not valid
};

class OptionSet {
 public:
  // Options declared from here on belong to this section.
  void section(std::string_view title);

  void flag(std::string_view name, bool* to, std::string_view help);
  void integer(std::string_view name, std::int64_t* to, std::string_view help,
               IntRange range = {});
  void number(std::string_view name, double* to, std::string_view help,
              NumberRange range = {});
  void text(std::string_view name, std::string* to, std::string_view help);
  // A path of this machine: gs:// and s3:// are refused.
  void path(std::string_view name, std::string* to, std::string_view help);
  void list(std::string_view name, std::vector<std::string>* to,
            std::string_view help);
  // `not_yet` are spellings users know that RingMax cannot do so far; they are
  // refused by name.
  void dtype(std::string_view name, DType* to,
             std::initializer_list<DType> allowed, std::string_view help,
             std::initializer_list<std::string_view> not_yet = {});
  template <typename E, std::size_t N>
  void choice(std::string_view name, E* to, const Named<E> (&names)[N],
              std::string_view help,
              std::initializer_list<std::string_view> not_yet = {}) {
    std::vector<std::string> spellings;
    for (const Named<E>& each : names) spellings.emplace_back(each.name);
    add_choice(
        name, std::move(spellings),
        [to, &names](std::size_t index) { *to = names[index].value; },
        [to, &names] { return std::string(name_of(names, *to)); }, help,
        not_yet);
  }
  // A second name for the option declared last.
  void alias(std::string_view name);

  const std::vector<Option>& options() const& { return options_; }
  const std::vector<Option>& options() && = delete;  // would dangle
  // By name or alias; nullptr when there is none.
  const Option* find(std::string_view name) const;

 private:
  Option& add(std::string_view name, OptionKind kind, std::string valid,
              std::string_view help);
  void add_choice(std::string_view name, std::vector<std::string> spellings,
                  std::function<void(std::size_t)> set,
                  std::function<std::string()> get, std::string_view help,
                  std::initializer_list<std::string_view> not_yet);

  std::string section_;
  std::vector<Option> options_;
};

}  // namespace ringmax

#endif  // RINGMAX_BASE_OPTION_H_
