// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// completionTime bounds how long a shell waits for a cluster.
const completionTime = 2 * time.Second

// CompleteByServer returns the words that list returns, or none if it takes longer than a user waits for a shell.
func CompleteByServer(c *cobra.Command, list func(context.Context) []string) []string {
	ctx, cancel := context.WithTimeout(c.Context(), completionTime)
	defer cancel()
	listed := make(chan []string, 1)
	go func() { listed <- list(ctx) }() // it may wait for a program that signs users in, which ctx doesn't end
	select {
	case words := <-listed:
		return words
	case <-ctx.Done():
		return nil
	}
}

// Complete makes the shell complete what a command's flags name, as kubectl does: contexts, clusters and users of
// the kubeconfig, and namespaces of the cluster. A command that doesn't need a cluster completes namespaces only if
// flags name one.
func (k *Kubeconfig) Complete(c *cobra.Command, needed bool) {
	complete := func(flag string, list func() []string) {
		if c.Flags().Lookup(flag) == nil {
			return
		}
		err := c.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, begun string) ([]string,
			cobra.ShellCompDirective) {
			return WithPrefix(list(), begun), cobra.ShellCompDirectiveNoFileComp
		})
		if err != nil {
			panic(err) // the flag has a completion already
		}
	}
	complete("context", func() []string { return slices.Collect(maps.Keys(k.read().Contexts)) })
	complete("cluster", func() []string { return slices.Collect(maps.Keys(k.read().Clusters)) })
	complete("user", func() []string { return slices.Collect(maps.Keys(k.read().AuthInfos)) })
	complete("namespace", func() []string {
		if !needed && !k.IsNamed() {
			return nil
		}
		return CompleteByServer(c, k.namespaces)
	})
}

// WithPrefix returns the words that begin with a prefix, sorted.
func WithPrefix(words []string, prefix string) []string {
	words = slices.DeleteFunc(words, func(word string) bool { return !strings.HasPrefix(word, prefix) })
	slices.Sort(words)
	return words
}

// read returns what the kubeconfig has, which is nothing if it can't be read.
func (k *Kubeconfig) read() clientcmdapi.Config {
	config, _ := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(k.Rules, &k.Overrides).RawConfig()
	return config
}

// namespaces returns the names of the cluster's namespaces, or none if the user can't list them.
func (k *Kubeconfig) namespaces(ctx context.Context) (names []string) {
	config, _, _, err := k.Load()
	if err != nil {
		return nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil
	}
	list, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}
