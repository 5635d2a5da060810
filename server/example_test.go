// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugins"
	"gatehouse.dev/server"
)

// team is a validating plugin that wants a label on every namespace.
type team struct{}

// Validate implements admission.ValidationInterface.
func (team) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if namespace, ok := a.GetObject().(*corev1.Namespace); ok && namespace.Labels["team"] == "" {
		return admission.NewForbidden(a, fmt.Errorf("label team is missing"))
	}
	return nil
}

// A program runs a server with a plugin of its own, and calls it with client-go.
func Example() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	config := server.NewConfig(append([]plugin.Descriptor{{
		Name:       "RequireTeam",
		Phases:     plugin.Validating,
		Operations: []admission.Operation{admission.Create},
		Resources:  plugin.On(corev1.Resource("namespaces")),
		Default:    true,
		New:        func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return team{}, nil },
	}}, plugins.List...))
	config.API.DataDir = dir
	config.API.SecureServing.BindPort = 0 // any free port

	ctx, stop := context.WithCancel(context.Background())
	s, err := server.New(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-s.Ready()

	namespaces := kubernetes.NewForConfigOrDie(s.AdminConfig()).CoreV1().Namespaces()
	for _, labels := range []map[string]string{nil, {"team": "a"}} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: labels}}
		if _, err := namespaces.Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			fmt.Println(err)
		} else {
			fmt.Println("created", namespace.Name)
		}
	}
	stop()
	fmt.Println("stopped with error", <-ended)
	// Output:
	// namespaces "shop" is forbidden: label team is missing
	// created shop
	// stopped with error <nil>
}
