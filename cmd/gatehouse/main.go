package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/apiserver"
	"gatehouse.dev/chain"
)

type none struct{}

func (none) Handles(admission.Operation) bool { return false }

func main() {
	t := time.Now()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := apiserver.NewOptions()
	if len(os.Args) > 1 {
		o.DataDir = os.Args[1]
	}
	s, err := apiserver.New(ctx, o, func(*chain.Env) (admission.Interface, error) { return none{}, nil })
	if err != nil {
		fmt.Fprintln(os.Stderr, "gatehouse:", err)
		os.Exit(1)
	}
	fmt.Println("built", time.Since(t))
	go func() { <-s.Ready(); fmt.Println("ready", time.Since(t)) }()
	if err := s.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "gatehouse:", err)
		os.Exit(1)
	}
	fmt.Println("stopped", time.Since(t))
}
