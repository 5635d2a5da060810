package cli

import (
	"os"
	"slices"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

// What the election in an etcd of one member need not wait for, in milliseconds.
var quickElection = map[string]string{"ETCD_HEARTBEAT_INTERVAL": "10", "ETCD_ELECTION_TIMEOUT": "100"}

// etcd is etcd: what the program is where that is its name. It ends the process as etcd does.
//
// envtest starts etcd for a test: alone, and without waiting for the disk, which nobody else does.
// Such a one elects itself sooner.
func etcd(args []string) {
	if forTest(args) {
		for name, value := range quickElection {
			if _, given := os.LookupEnv(name); !given {
				os.Setenv(name, value) // which etcd has for what its flags don't say
			}
		}
	}
	etcdmain.Main(args)
}

// forTest tells whether etcd's arguments are those of a single member whose data nobody will miss.
func forTest(args []string) bool {
	flag := func(name string) bool {
		return slices.ContainsFunc(args, func(arg string) bool {
			given, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			return strings.HasPrefix(arg, "-") && given == name
		})
	}
	return flag("unsafe-no-fsync") && !flag("initial-cluster") && !flag("discovery") && !flag("config-file")
}
