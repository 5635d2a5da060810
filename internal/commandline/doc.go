// Package commandline is what the commands have in common: gatehouse's, and gatehouse-webhook's.
//
// A command line that is wrong is a [Usage] error, and ends a program with [ExitUsage]; [Run] runs
// a program's root command and says what failed, each error in a line. [GroupFlags] shows flags by
// group and the examples below them. [Logging] is what -v means, and [Kubeconfig] finds a cluster
// as kubectl does.
package commandline
