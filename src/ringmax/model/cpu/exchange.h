// Arrays that the devices of a process show each other.
//
// A device puts an array here and gets a ticket, which travels to the others as
// a value of the program; they read the array, each once. The last reader frees
// it. Or they read it as often as they like, and each says when it is through.
// So a device that runs ahead into the next step makes arrays of its own
// and overwrites nothing that another still reads. Nobody waits here: that all
// have put theirs before anyone reads is the program's affair (the collective
// that carries the tickets).
#ifndef RINGMAX_MODEL_CPU_EXCHANGE_H_
#define RINGMAX_MODEL_CPU_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace ringmax::model::cpu {

class Exchange {
 public:
  // The process' own.
  static Exchange& instance();

  // `kind` and `floats` are what readers have to expect.
  struct Array {
    std::int64_t kind = 0;
    std::int64_t floats = 0;
    std::shared_ptr<float> data;  // aligned to a line of the cache
  };
  static Array allocate(std::int64_t kind, std::int64_t floats);

  // A ticket for `readers` readers; no two are alike.
  std::int64_t put(Array array, std::int64_t readers);
  // A ticket for any number of readings, until release() was called this often.
  std::int64_t keep(Array array, std::int64_t releases);
  void release(std::int64_t ticket);
  // Takes one reading off; throws kInternal for a ticket that is none or
  // another kind or size of array.
  Array take(std::int64_t ticket, std::int64_t kind, std::int64_t floats);
  // Arrays that wait for readers.
  std::int64_t waiting() const;
  // Forgets all that wait: after a program has failed and no other runs.
  void clear();

 private:
  struct Entry {
    Array array;
    std::int64_t readers;  // still to come, or releases
    bool kept = false;
  };
  mutable std::mutex mutex_;
  std::int64_t next_ = 1;
  std::unordered_map<std::int64_t, Entry> entries_;
};

}  // namespace ringmax::model::cpu

#endif  // RINGMAX_MODEL_CPU_EXCHANGE_H_
