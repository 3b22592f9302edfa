#include "ringmax/train/program.h"

#include <algorithm>
#include <utility>

#include "ringmax/base/error.h"

namespace ringmax::train {

Program::Program(const graph::Graph& graph, pjrt::LoadedExecutable executable,
                 PlacementPtr placement)
    : executable_(std::move(executable)), placement_(std::move(placement)) {
  if (placement_ == nullptr) {
    placement_ =
        std::make_shared<const Placement>(executable_.client(), graph.mesh());
  }
  for (const int id : executable_.addressable_device_ids()) {
    const auto& ids = placement_->device_ids();
    const auto& local = placement_->local();
    const auto found =
        std::find_if(local.begin(), local.end(), [&](std::int64_t logical) {
          return ids[static_cast<std::size_t>(logical)] == id;
        });
    if (found == local.end()) {
      fail(ErrorCode::kInternal,
           "a program runs on device {}, which its placement does not name",
           id);
    }
    order_.push_back(static_cast<std::size_t>(found - local.begin()));
  }
  if (order_.size() != placement_->local().size()) {
    fail(ErrorCode::kInternal,
         "a program runs on {} addressable devices, its placement names {}",
         order_.size(), placement_->local().size());
  }
  for (const graph::Parameter& p : graph.parameters()) {
    parameters_.push_back(
        {p.name, p.value.shape(), p.spec.value_or(mesh::PartitionSpec())});
  }
  for (const graph::Result& r : graph.results()) {
    results_.push_back(
        {r.name, r.value.shape(), r.spec.value_or(mesh::PartitionSpec())});
  }
}

std::vector<DeviceArray> Program::run(
    const std::vector<const DeviceArray*>& arguments) const {
  if (arguments.size() != parameters_.size()) {
    fail(ErrorCode::kInternal, "{} arguments for {} parameters",
         arguments.size(), parameters_.size());
  }
  std::vector<std::vector<pjrt::Buffer>> lists(order_.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const DeviceArray& a = *arguments[i];
    if (a.shape != parameters_[i].shape || a.spec != parameters_[i].spec) {
      fail(ErrorCode::kInternal, "argument {} {} {} does not fit parameter {}",
           parameters_[i].name, a.shape.to_string(), a.spec.to_string(),
           parameters_[i].shape.to_string());
    }
    for (std::size_t d = 0; d < order_.size(); ++d) {
      lists[d].push_back(a.shards[order_[d]]);
    }
  }
  const std::vector<std::vector<pjrt::Buffer>> out =
      executable_.execute(lists).outputs;
  std::vector<DeviceArray> results;
  for (std::size_t i = 0; i < results_.size(); ++i) {
    DeviceArray a{results_[i].shape, results_[i].spec, placement_,
                  std::vector<pjrt::Buffer>(order_.size())};
    for (std::size_t d = 0; d < order_.size(); ++d) {
      a.shards[order_[d]] = out[d][i];
    }
    results.push_back(std::move(a));
  }
  return results;
}

}  // namespace ringmax::train
