// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tremula::transport::ofi {

/// While one lives libraries may do with signals what they like; then all is as before. Signals are
/// the application's, but libfabric catches some when its shm is first used, and a library that it
/// loads for a network of the past does when it is loaded, to write files of backtraces where
/// nobody wants them; that one's handlers are not put back. Thread-safe.
class SignalKeeper {
public:
  SignalKeeper();
  ~SignalKeeper();
  SignalKeeper(const SignalKeeper&) = delete;
  SignalKeeper& operator=(const SignalKeeper&) = delete;
};

}  // namespace tremula::transport::ofi
