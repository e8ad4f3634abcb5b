#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace stagger::cli {

/// What is being done, on standard error, while it takes long: on a terminal a line that is drawn
/// again and again from half a second on, elsewhere a line every ten seconds. It goes on telling
/// the seconds while nothing is shown.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// From any thread. The fraction of the work that is done is 0 to 1.
  void show(const std::string& what, double fraction);
  void show(const std::string& what);
  /// Takes the line away. Nothing is shown after it.
  void end();

 private:
  void tell();
  void draw(double seconds);

  bool terminal_;
  double began_;
  bool drawn_ = false;  ///< the teller's own, until it ends
  std::mutex mutex_;    ///< of what follows
  std::condition_variable changed_;
  std::string shown_;
  bool ended_ = false;
  std::thread teller_;
};

}  // namespace stagger::cli
