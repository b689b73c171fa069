#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"

namespace prometheus {
class Exposer;
}

namespace tandem {

using MetricLabels = std::map<std::string, std::string>;

// The metrics of one process and the HTTP page that shows them. Thread-safe after construction.
class MetricsPage final {
 public:
  // `address` "host:port" (port 0: any free one) serves /metrics; empty: no page, counting goes on.
  // UNAVAILABLE when the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<MetricsPage>> Create(const std::string& address);
  ~MetricsPage();

  // "host:port" that is really bound, or empty.
  const std::string& address() const { return address_; }

  // Value of the `model` label of everything created later.
  void SetModel(const std::string& model);

  // The metric of this name and these labels, created at 0 on first use. References stay valid as
  // long as the page.
  prometheus::Counter& Counter(const std::string& name, const std::string& help,
                               const MetricLabels& labels = {});
  prometheus::Gauge& Gauge(const std::string& name, const std::string& help,
                           const MetricLabels& labels = {});
  prometheus::Histogram& Histogram(const std::string& name, const std::string& help,
                                   const prometheus::Histogram::BucketBoundaries& buckets,
                                   const MetricLabels& labels = {});

  // The page's text, as a scraper would read it.
  std::string Text() const;

 private:
  MetricsPage();
  MetricLabels WithModel(const MetricLabels& labels) const;
  mutable std::mutex model_mutex_;
  std::string model_;
  std::string address_;
  std::shared_ptr<prometheus::Registry> registry_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

// Bucket edges in seconds. Common stacks start at 10 ms, where every sample of this service would
// fall into one bucket.
prometheus::Histogram::BucketBoundaries LatencyBuckets();       // 0.5 ms .. 1 s
prometheus::Histogram::BucketBoundaries TokenLatencyBuckets();  // as Latency, from 0.125 ms
prometheus::Histogram::BucketBoundaries LongBuckets();          // 0.5 ms .. 300 s
prometheus::Histogram::BucketBoundaries FineBuckets();          // 5 us .. 1 s
prometheus::Histogram::BucketBoundaries PowerOfTwoBuckets();    // 1 .. 512
prometheus::Histogram::BucketBoundaries CountBuckets();         // 0 .. 8

}  // namespace tandem
