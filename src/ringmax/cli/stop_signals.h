// The wish to stop a long run: SIGINT, SIGTERM and SIGHUP (the terminal is
// gone) are noted and the run ends by itself after the step in hand; another
// one later ends the process at once.
#ifndef RINGMAX_CLI_STOP_SIGNALS_H_
#define RINGMAX_CLI_STOP_SIGNALS_H_

namespace ringmax::cli {

// From here on, for the whole process. Writing into a pipe that nobody reads
// becomes an error instead of the process's end: in `ringmax train | tee log`
// Ctrl-C ends tee too, and the parameters would be lost.
//
// Signals within half a second of the first count as the same wish: timeout(1)
// and service managers send theirs to the process and to its group.
void catch_stop_signals();

bool stop_asked();
// As the first signal does, but silently.
void ask_to_stop();

}  // namespace ringmax::cli

#endif  // RINGMAX_CLI_STOP_SIGNALS_H_
