// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package gatehousetest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"gatehouse.dev/internal/testlog"
)

// sharedVariable names a kubeconfig file in the environment.
const sharedVariable = "GATEHOUSETEST_KUBECONFIG"

// Main runs the tests of a package; call it in TestMain. It starts a server, or uses the one that
// GATEHOUSETEST_KUBECONFIG leads to, prepares it with setUp, which may be nil, runs the tests, ends
// the server, and returns the exit code. If something fails, it prints what the server has logged.
//
//	var srv *gatehousetest.Server
//
//	func TestMain(m *testing.M) {
//		os.Exit(gatehousetest.Main(m, func(s *gatehousetest.Server) error {
//			srv = s
//			return srv.CRDs(context.Background(), "../config/crd")
//		}))
//	}
func Main(m *testing.M, setUp func(*Server) error, options ...Option) int {
	logged := testlog.Keep()
	code, err := runMain(m, setUp, options)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	if text := logged(); code != 0 && text != "" {
		fmt.Fprintln(os.Stderr, text)
	}
	return code
}

func runMain(m *testing.M, setUp func(*Server) error, options []Option) (code int, err error) {
	s, err := open(options)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if setUp != nil {
		if err := setUp(s); err != nil {
			return 1, err
		}
	}
	return m.Run(), nil
}

// open starts a server in a temporary directory, or connects to the shared one.
func open(options []Option) (*Server, error) {
	if file := os.Getenv(sharedVariable); file != "" {
		if len(options) > 0 {
			return nil, fmt.Errorf("%s=%s: the server that it leads to has its own options, and can't have others: "+
				"unset it for these tests", sharedVariable, file)
		}
		config, err := clientcmd.BuildConfigFromFlags("", file)
		if err != nil {
			return nil, fmt.Errorf("%s=%s: %w", sharedVariable, file, err)
		}
		s := &Server{Config: config, Kubeconfig: file}
		s.stop = sync.OnceValue(func() error {
			for _, end := range s.cleanups {
				end()
			}
			return nil
		})
		return s, nil
	}
	dir, err := os.MkdirTemp("", "gatehouse-")
	if err != nil {
		return nil, err
	}
	s, err := run(dir, options)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	stop := s.stop
	s.stop = sync.OnceValue(func() error { return errors.Join(stop(), os.RemoveAll(dir)) })
	return s, nil
}
