// What the process sets right before it does anything.
#ifndef RINGMAX_CLI_PROCESS_H_
#define RINGMAX_CLI_PROCESS_H_

namespace ringmax::cli {

// Gives standard streams that the caller closed (`>&-`) something that cannot
// be used: otherwise the next file opened gets their number, and step lines go
// into it. Makes a file-size limit an error that is told, not the process's
// end.
void prepare_process();

}  // namespace ringmax::cli

#endif  // RINGMAX_CLI_PROCESS_H_
