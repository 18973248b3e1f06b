// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "client/exchange/queue.hpp"
#include "client/session/progress.hpp"
#include "core/key.hpp"
#include "core/log.hpp"
#include "index_calc/overlap/overlap.hpp"
#include "index_calc/relabel/relabel.hpp"
#include "transport/control/tls.hpp"

namespace tremula::client {

/// `none` for a time limit, in seconds.
inline constexpr double no_limit = std::numeric_limits<double>::infinity();

/// What a session is told. Every key: argument > TREMULA_<KEY> in the environment > YAML file named
/// by TREMULA_CONFIG > default. The manual's page "Configuration" documents them.
struct SessionConfig {
  std::string server = "localhost:7423";  ///< "host:port", or "file:PATH" of the server's port file
  std::string server_from = "default";    ///< where `server` was set, for messages
  core::KeySource key{};      ///< what this rank and the server prove to each other that they know
  transport::TlsTrust tls{};  ///< how this rank knows the certificate of the server
  std::string transport = "auto";  ///< auto, local, tcp, ofi or mpi
  double timeout = 60;         ///< seconds for every set-up wait: server, rendezvous, connections
  double step_timeout = 3600;  ///< seconds for the data of one step
  double silence = 0;  ///< seconds that this rank may be silent before the server counts it as
                       ///< lost, and its peers do; 0: 10, or 4 heartbeats of the server if longer
  index_calc::Algorithm index_algorithm = index_calc::Algorithm::aspen;
  bool validate_plans = false;
  bool proof = false;  ///< as a producer: every step tells hashes, which consumers compare
#ifdef NDEBUG
  bool check_lent = false;  ///< notice that a lent array is changed before it is taken
#else
  bool check_lent = true;
#endif
  bool dump = true;      ///< SIGUSR1 tells what this rank waits for, unless it has an action
  int copy_threads = 1;  ///< that copy large packages, the rank's own included
  core::LogLevel log = core::LogLevel::warn;
  std::string ofi_provider;  ///< libfabric provider; empty = the best that both sides have
  /// Interface or address that a rank listens on; empty = that by which the server is reached.
  std::string ofi_bind;
  /// Use libfabric, which authenticates no peer, even where jobs have a key.
  bool trust_network = false;
  /// This rank and its server have proved a key to each other. Not read from a configuration: the
  /// session sets it.
  bool has_key = false;
  std::string host;  ///< ranks with equal names are near each other; empty = gethostname
};

/// A line for each variable TREMULA_... of the environment that nothing of Tremula reads: it names
/// the nearest one that there is.
std::vector<std::string> unknown_variables();

/// @param options  YAML mapping, may be empty
/// @throws core::Error invalid_argument naming key, value, source and what was expected
SessionConfig load_session_config(const std::string& options);

/// What a producer chooses for one stream.
struct OutConfig {
  int queue_depth = 2;           ///< steps that may be under way to a consumer; 0: none
  std::int64_t queue_bytes = 0;  ///< of all ranks, that may be under way to a consumer; 0: no limit
  WhenFull when_full = WhenFull::block;
  bool is_readable_by_all = false;  ///< by groups of every key of the server, not of its own alone
  int wait_for_consumers = 1;       ///< consumer groups that the stream needs
  Progress progress = Progress::automatic;
  bool is_state = false;        ///< its steps are versions, of which consumers get the newest
  int keep_steps = 0;           ///< newest ones, copied for consumers that come later
  std::int64_t first_step = 0;  ///< number of the first one
  /// Of a state: a version is not copied; consumers read the arrays until the next one begins. Then
  /// queue_depth is 0, and keep_steps 1.
  bool lends = false;
  double lease = 10;           ///< seconds for which a consumer may read such a version
  bool readers_serve = false;  ///< of a state: its readers may serve it to others
  bool is_copy =
      false;  ///< of a state that this group reads: its steps have the numbers of that one
  std::optional<bool> is_proved{};  ///< else as the session says
};

/// @throws core::Error invalid_argument as above
OutConfig load_out_config(const std::string& options);

/// Which steps a consumer gets.
enum class Steps : std::uint8_t {
  every,
  latest,  ///< of those that are complete when it begins one
  share,   ///< each step goes to one of the consumer groups that share them
};

/// With which step a consumer begins that comes late. The numbers are those of wire::Start.
enum class Start : std::uint8_t { next = 0, latest = 1, oldest = 2 };

/// What a consumer chooses for one stream.
struct InConfig {
  Steps steps = Steps::every;
  Start start = Start::next;   ///< else of those that the producer has kept
  double restart_timeout = 0;  ///< seconds to wait for a lost producer to be started again
  bool serves = false;         ///< of a state: other readers may get the versions from this group
};

/// @throws core::Error invalid_argument as above
InConfig load_in_config(const std::string& options);

/// How the labels of a consumer's layouts are given away; what counts is bytes between hosts.
struct RelabelConfig {
  index_calc::Method method = index_calc::Method::exact;
};

/// @throws core::Error invalid_argument as above
RelabelConfig load_relabel_config(const std::string& options);

}  // namespace tremula::client
