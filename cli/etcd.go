// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"slices"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

// quickElection shortens the election in an etcd of one member, which needn't wait. The values are
// in milliseconds.
var quickElection = map[string]string{"ETCD_HEARTBEAT_INTERVAL": "10", "ETCD_ELECTION_TIMEOUT": "100"}

// etcd runs as the program etcd, and ends the process as etcd does.
//
// For a test envtest starts etcd with one member, and without waiting for the disk. Only tests do
// that, and then the member elects itself sooner.
func etcd(args []string) {
	if isForTest(args) {
		for name, value := range quickElection {
			if _, given := os.LookupEnv(name); !given {
				os.Setenv(name, value) // which etcd has for what its flags don't say
			}
		}
	}
	etcdmain.Main(args)
}

// isForTest reports whether etcd's arguments are those of a single member that doesn't wait for the
// disk.
func isForTest(args []string) bool {
	flag := func(name string) bool {
		return slices.ContainsFunc(args, func(arg string) bool {
			given, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			return strings.HasPrefix(arg, "-") && given == name
		})
	}
	return flag("unsafe-no-fsync") && !flag("initial-cluster") && !flag("discovery") && !flag("config-file")
}
