// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Command webhook has two admission webhooks that keep users from deleting pods by mistake.
// README.md shows how to run them.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"gatehouse.dev/webhook/server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	var s server.Server
	var clientNames string
	flags := flag.NewFlagSet("webhook", flag.ExitOnError)
	flags.StringVar(&s.Address, "address", ":8443", "where to listen, `host:port`")
	flags.StringVar(&s.CertFile, "cert-file", "cert.pem",
		"`file` with the server's certificate; read again when it changes")
	flags.StringVar(&s.KeyFile, "key-file", "key.pem", "`file` with the certificate's key")
	flags.StringVar(&s.ClientCAFile, "client-ca-file", "",
		"`file` with the authorities whose clients may call; empty: everyone may")
	flags.StringVar(&clientNames, "client-names", "",
		"common `names`, separated by commas, in the certificates of clients that may call; empty: all that the "+
			"authorities know")
	_ = flags.Parse(args) // exits on errors
	if clientNames != "" {
		s.ClientNames = strings.Split(clientNames, ",")
	}

	mux := http.NewServeMux()
	mux.Handle("/mutating", server.Handler(protect))
	mux.Handle("/validating", server.Handler(keep))
	s.Handler = mux

	listener, err := net.Listen("tcp", s.Address)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "Webhooks at https://%s/mutating and /validating\n", listener.Addr())
	return s.Serve(ctx, listener)
}
