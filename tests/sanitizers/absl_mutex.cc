// Shows absl::Mutex to ThreadSanitizer. Debian's Abseil is not instrumented, so without this every
// member guarded by an absl::Mutex would look unguarded. Linked into every program of a TSan build,
// with one --wrap per function below; a function of Mutex that is missing here leads to false
// reports, never to missed ones.
#include <sanitizer/tsan_interface.h>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

// The names that the linker gives to the wrapped functions, from Abseil's mangled ones.
extern "C" {
void __real__ZN4absl7debian35Mutex4LockEv(absl::Mutex* mutex);
void __real__ZN4absl7debian35Mutex6UnlockEv(absl::Mutex* mutex);
void __real__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(absl::Mutex* mutex,
                                                           const absl::Condition& condition);
bool __real__ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE(
    absl::Mutex* mutex, const absl::Condition& condition, absl::Duration timeout);
void __real__ZN4absl7debian35MutexD1Ev(absl::Mutex* mutex);

void __wrap__ZN4absl7debian35Mutex4LockEv(absl::Mutex* mutex) {
  __tsan_mutex_pre_lock(mutex, 0);
  __real__ZN4absl7debian35Mutex4LockEv(mutex);
  __tsan_mutex_post_lock(mutex, 0, 0);
}

void __wrap__ZN4absl7debian35Mutex6UnlockEv(absl::Mutex* mutex) {
  __tsan_mutex_pre_unlock(mutex, 0);
  __real__ZN4absl7debian35Mutex6UnlockEv(mutex);
  __tsan_mutex_post_unlock(mutex, 0);
}

// Waiting gives the mutex away and takes it again.
void __wrap__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(absl::Mutex* mutex,
                                                           const absl::Condition& condition) {
  __tsan_mutex_pre_unlock(mutex, 0);
  __tsan_mutex_post_unlock(mutex, 0);
  __tsan_mutex_pre_lock(mutex, 0);
  __real__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(mutex, condition);
  __tsan_mutex_post_lock(mutex, 0, 0);
}

bool __wrap__ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE(
    absl::Mutex* mutex, const absl::Condition& condition, absl::Duration timeout) {
  __tsan_mutex_pre_unlock(mutex, 0);
  __tsan_mutex_post_unlock(mutex, 0);
  __tsan_mutex_pre_lock(mutex, 0);
  const bool holds =
      __real__ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE(
          mutex, condition, timeout);
  __tsan_mutex_post_lock(mutex, 0, 0);
  return holds;
}

void __wrap__ZN4absl7debian35MutexD1Ev(absl::Mutex* mutex) {
  __real__ZN4absl7debian35MutexD1Ev(mutex);
  __tsan_mutex_destroy(mutex, 0);
}
}
