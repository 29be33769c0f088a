// Command stepwell runs pipelines on this machine and looks after their executions.
//
// `stepwell run FILE` does everything in one process with an embedded database; the other commands
// show, steer and repeat executions. Exit codes: 0 all is well, 1 something failed, 2 the input was
// wrong, 3 an execution completed with failures, 130 interrupted. What programs read (-o json, exit
// codes, flags) is stable; the text for people is not.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
