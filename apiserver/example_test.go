// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/apiserver"
	"gatehouse.dev/chain"
	"gatehouse.dev/chain/config"
	"gatehouse.dev/plugin"
	"gatehouse.dev/test/needs"
)

// The API server runs with any admission control, here with a chain of no plugins. Package server adds the
// plugins, the controllers and the decisions.
func Example() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	options := apiserver.NewOptions()
	options.DataDir = dir
	options.SecureServing.BindPort = 0 // any free port

	ctx, stop := context.WithCancel(context.Background())
	s, err := apiserver.New(ctx, options, func(env *plugin.Env) (apiserver.Admission, error) {
		return chain.New(nil, &config.Config{}, env)
	})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-s.Ready()

	namespaces := kubernetes.NewForConfigOrDie(s.AdminConfig()).CoreV1().Namespaces()
	namespace, err := namespaces.Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("there is", namespace.Name)
	stop()
	fmt.Println("stopped with error", <-ended)
}

// Examples can't be skipped, so this test runs the one that starts a server.
func TestExample(t *testing.T) {
	needs.Server(t)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = writer
	Example()
	os.Stdout = stdout
	writer.Close()
	if printed, err := io.ReadAll(reader); err != nil || string(printed) != "there is kube-system\nstopped with error <nil>\n" {
		t.Errorf("it prints %q, %v", printed, err)
	}
}
