#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/cli/runtime_directory.h"
#include "services/cli/supervisor.h"

namespace tandem::cli {

// Runs a Supervisor over small shell scripts in a thread and records what it reports.
class SupervisorFixture : public testing::Test {
 protected:
  SupervisorFixture() : directory_(*RuntimeDirectory::Create()) { EXPECT_EQ(pipe(stop_fds_), 0); }
  ~SupervisorFixture() override {
    if (thread_.joinable()) {
      Stop();
      Stop();
      thread_.join();
    }
    close(stop_fds_[0]);
    close(stop_fds_[1]);
  }

  // A child that becomes ready and runs until SIGTERM.
  void AddServer(const std::string& name) {
    AddScript(name,
              "trap 'echo bye; exit 0' TERM; echo hello; echo ok > $READY.tmp; "
              "mv $READY.tmp $READY; while :; do sleep 0.02; done");
  }
  // Any bash script; $READY is its ready file, $FOLDER a private folder.
  void AddScript(const std::string& name, const std::string& script) {
    const std::string ready = directory_.File(name + ".json");
    const std::string text =
        absl::StrCat("READY=", ready, "; FOLDER=", directory_.path(), "; ", script);
    options_.children.push_back({.name = name,
                                 .command =
                                     [text] {
                                       return std::vector<std::string>{"bash", "-c", text};
                                     },
                                 .ready_file = ready});
  }

  void Start() {
    options_.stop_fd = stop_fds_[0];
    options_.on_line = [this](absl::string_view name, absl::string_view line) {
      Record(absl::StrCat(name, ": ", line));
    };
    options_.on_event = [this](absl::string_view name, absl::string_view message) {
      Record(absl::StrCat(name, " ", message));
    };
    options_.on_ready = [this](absl::string_view name, pid_t pid, absl::string_view) {
      const std::lock_guard<std::mutex> lock(mutex_);
      pids_[std::string(name)].push_back(pid);
      return absl::OkStatus();
    };
    options_.on_all_ready = [this] {
      Record("all ready");
      return absl::OkStatus();
    };
    thread_ = std::thread([this] { status_ = Supervisor(options_).Run(); });
  }

  void Stop() { ASSERT_EQ(write(stop_fds_[1], "x", 1), 1); }
  absl::Status Join() {
    thread_.join();
    return status_;
  }

  std::vector<std::string> log() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return log_;
  }
  // The process of the `start`-th start (from 0) of a child, once it is ready; 0 after 10 s.
  pid_t WaitForPid(const std::string& name, size_t start) {
    for (int i = 0; i < 1000; ++i) {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (pids_[name].size() > start) return pids_[name][start];
      }
      absl::SleepFor(absl::Milliseconds(10));
    }
    return 0;
  }
  bool WaitForLog(const std::string& line) {
    return WaitFor([&] { return Position(line) >= 0; });
  }
  bool WaitFor(const std::function<bool()>& condition) {
    for (int i = 0; i < 1000 && !condition(); ++i) absl::SleepFor(absl::Milliseconds(10));
    return condition();
  }
  // Of the first log entry that holds `text`, or -1.
  int Position(const std::string& text) {
    const std::vector<std::string> entries = log();
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].find(text) != std::string::npos) return static_cast<int>(i);
    }
    return -1;
  }

  Supervisor::Options options_;
  RuntimeDirectory directory_;

 private:
  void Record(std::string entry) {
    const std::lock_guard<std::mutex> lock(mutex_);
    log_.push_back(std::move(entry));
  }

  int stop_fds_[2] = {-1, -1};
  std::thread thread_;
  absl::Status status_;
  std::mutex mutex_;
  std::vector<std::string> log_;
  std::map<std::string, std::vector<pid_t>> pids_;
};

}  // namespace tandem::cli
