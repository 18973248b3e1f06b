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

/// Value of a time limit, in seconds, that is configured as `none`.
inline constexpr double no_limit = std::numeric_limits<double>::infinity();

/// Configuration of a session. Each key comes from the first of these sources that sets it: the argument,
/// TREMULA_<KEY> in the environment, the YAML file named by TREMULA_CONFIG, the default. The manual's page
/// "Configuration" documents the keys.
struct SessionConfig {
  std::string server = "localhost:7423";  ///< "host:port", or "file:PATH" of the server's port file
  std::string server_from = "default";    ///< where `server` was set, for messages
  core::KeySource key{};  ///< source of the key that this rank and the server prove to each other
  transport::TlsTrust tls{};       ///< how this rank recognizes the certificate of the server
  std::string transport = "auto";  ///< auto, local, tcp, ofi or mpi
  double timeout = 60;         ///< seconds for every set-up wait: server, rendezvous, connections
  double step_timeout = 3600;  ///< seconds for the data of one step
  double silence = 0;  ///< seconds of silence after which the server and the peers count this rank
                       ///< as lost; 0: 10 s, or 4 heartbeats of the server if that is longer
  index_calc::Algorithm index_algorithm = index_calc::Algorithm::aspen;
  bool validate_plans = false;
  bool proof = false;  ///< as a producer: every step carries hashes, which consumers compare
#ifdef NDEBUG
  bool check_lent = false;  ///< check that a lent array is not changed before it has been taken
#else
  bool check_lent = true;
#endif
  bool dump = true;  ///< SIGUSR1 prints what this rank waits for, unless it already has an action
  int copy_threads = 1;  ///< how many threads copy large packages, including the rank's own
  core::LogLevel log = core::LogLevel::warn;
  std::string ofi_provider;  ///< libfabric provider; empty: the best that both sides have
  /// Interface or address that a rank listens on; empty: the one used to reach the server.
  std::string ofi_bind;
  /// Use libfabric, which does not authenticate peers, even if jobs have a key.
  bool trust_network = false;
  /// This rank and its server have proved a key to each other. Not read from a configuration: the
  /// session sets it.
  bool has_key = false;
  std::string host;  ///< ranks with equal names are near each other; empty: gethostname
};

/// Returns a line for each environment variable TREMULA_... that no part of Tremula reads; the line names the
/// known variable with the most similar name.
std::vector<std::string> unknown_variables();

/// Returns the configuration of a session, from all sources.
/// @param options  YAML mapping, may be empty
/// @throws core::Error invalid_argument naming key, value, source and what was expected
SessionConfig load_session_config(const std::string& options);

/// The options of a producer for one stream.
struct OutConfig {
  int queue_depth = 2;           ///< how many steps may be under way to a consumer; 0: none
  std::int64_t queue_bytes = 0;  ///< limit on all ranks' bytes under way to a consumer; 0: none
  WhenFull when_full = WhenFull::block;
  bool is_readable_by_all = false;  ///< groups with any key of the server may subscribe
  int wait_for_consumers = 1;       ///< how many consumer groups the stream needs
  Progress progress = Progress::automatic;
  bool is_state = false;        ///< its steps are versions, of which consumers get the newest
  int keep_steps = 0;           ///< how many of the newest steps are copied for later consumers
  std::int64_t first_step = 0;  ///< number of the first step
  /// For a state: a version is not copied; consumers read the arrays until the next version begins.
  /// queue_depth is then 0, and keep_steps 1.
  bool lends = false;
  double lease = 10;           ///< seconds for which a consumer may read such a version
  bool readers_serve = false;  ///< for a state: its readers may serve it to others
  /// Set for the copy of a state that this group reads and serves: its steps keep the numbers of the original.
  bool is_copy = false;
  std::optional<bool> is_proved{};  ///< whether steps carry hashes; nullopt: as in `proof`
};

/// Returns the options of a producer.
/// @throws core::Error invalid_argument as above
OutConfig load_out_config(const std::string& options);

/// Which steps a consumer gets.
enum class Steps : std::uint8_t {
  every,
  latest,  ///< the newest step that is complete when the consumer begins one
  share,   ///< each step goes to one of the consumer groups that share them
};

/// The first step of a consumer that joins late. The numbers are those of wire::Start.
enum class Start : std::uint8_t { next = 0, latest = 1, oldest = 2 };

/// The options of a consumer for one stream.
struct InConfig {
  Steps steps = Steps::every;
  Start start = Start::next;   ///< latest and oldest: of the steps that the producer has kept
  double restart_timeout = 0;  ///< seconds to wait for a lost producer to be started again
  bool serves = false;         ///< for a state: other readers may get the versions from this group
};

/// Returns the options of a consumer.
/// @throws core::Error invalid_argument as above
InConfig load_in_config(const std::string& options);

/// How the labels of a consumer's layouts are assigned to its ranks, so that few bytes move between hosts.
struct RelabelConfig {
  index_calc::Method method = index_calc::Method::exact;
};

/// Returns the options of a relabeling.
/// @throws core::Error invalid_argument as above
RelabelConfig load_relabel_config(const std::string& options);

}  // namespace tremula::client
