#include "common/metrics/metrics_page.h"

#include <prometheus/exposer.h>
#include <prometheus/text_serializer.h>

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tandem {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

Buckets Join(Buckets head, const Buckets& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

}  // namespace

MetricsPage::MetricsPage() : registry_(std::make_shared<prometheus::Registry>()) {}
MetricsPage::~MetricsPage() = default;

absl::StatusOr<std::unique_ptr<MetricsPage>> MetricsPage::Create(const std::string& address) {
  auto page = std::unique_ptr<MetricsPage>(new MetricsPage());
  if (address.empty()) return page;
  // The library reports a failed bind by an exception; it ends here.
  try {
    page->exposer_ = std::make_unique<prometheus::Exposer>(address, 1);
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics on ", address, ": ", error.what()));
  }
  page->exposer_->RegisterCollectable(page->registry_);
  const std::string host = address.substr(0, address.rfind(':'));
  page->address_ = absl::StrCat(host, ":", page->exposer_->GetListeningPorts().front());
  return page;
}

void MetricsPage::SetModel(const std::string& model) {
  const std::lock_guard lock(model_mutex_);
  model_ = model;
}

MetricLabels MetricsPage::WithModel(const MetricLabels& labels) const {
  MetricLabels all = labels;
  const std::lock_guard lock(model_mutex_);
  all["model"] = model_;
  return all;
}

prometheus::Counter& MetricsPage::Counter(const std::string& name, const std::string& help,
                                          const MetricLabels& labels) {
  return prometheus::BuildCounter()
      .Name(name)
      .Help(help)
      .Register(*registry_)
      .Add(WithModel(labels));
}

prometheus::Gauge& MetricsPage::Gauge(const std::string& name, const std::string& help,
                                      const MetricLabels& labels) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(*registry_).Add(WithModel(labels));
}

prometheus::Histogram& MetricsPage::Histogram(const std::string& name, const std::string& help,
                                              const Buckets& buckets, const MetricLabels& labels) {
  return prometheus::BuildHistogram()
      .Name(name)
      .Help(help)
      .Register(*registry_)
      .Add(WithModel(labels), buckets);
}

std::string MetricsPage::Text() const {
  return prometheus::TextSerializer().Serialize(registry_->Collect());
}

Buckets LatencyBuckets() {
  return {0.0005, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01,
          0.015,  0.02,  0.03,   0.05,  0.1,   0.25,  0.5,   1};
}

Buckets TokenLatencyBuckets() { return Join({0.000125, 0.00025}, LatencyBuckets()); }

Buckets LongBuckets() { return Join(LatencyBuckets(), {2.5, 5, 10, 30, 60, 120, 300}); }

Buckets FineBuckets() {
  Buckets fine = {5e-6, 1e-5, 1.5e-5, 2e-5, 2.5e-5, 5e-5, 1e-4, 1.5e-4, 2e-4, 3e-4};
  return Join(std::move(fine), LatencyBuckets());
}

Buckets PowerOfTwoBuckets() { return {1, 2, 4, 8, 16, 32, 64, 128, 256, 512}; }

Buckets CountBuckets() { return {0, 1, 2, 3, 4, 5, 6, 7, 8}; }

}  // namespace tandem
