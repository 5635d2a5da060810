// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"gatehouse.dev/plugins"
	"gatehouse.dev/review"
	"gatehouse.dev/server"
)

// A Go test judges manifests as the command does, and looks at the verdicts.
func Example() {
	read := func(text string) []review.Document {
		documents, errs := review.Read([]string{"-"}, strings.NewReader(text))
		if len(errs) > 0 {
			log.Fatal(errs)
		}
		return documents
	}
	ctx := context.Background()
	reviewer, err := review.Start(ctx, review.Options{
		Config: server.NewConfig(plugins.List),
		State: read(`{kind: Namespace, apiVersion: v1, metadata: {name: shop,
			labels: {pod-security.kubernetes.io/enforce: baseline}}}`),
		Pods: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer reviewer.Close()
	judged, err := reviewer.Review(ctx, read(`{kind: Deployment, apiVersion: apps/v1,
		metadata: {name: web, namespace: shop}, spec: {replicas: 2, selector: {matchLabels: {app: web}},
		template: {metadata: {labels: {app: web}}, spec: {hostNetwork: true, containers: [{name: c, image: i}]}}}}`), nil)
	if err != nil {
		log.Fatal(err)
	}
	result := judged.Results[0]
	fmt.Println(result.Object, "is", result.Verdict)
	fmt.Println(result.Stored.GetGeneration(), "generation is stored")
	pods := result.Pods[0]
	fmt.Println(pods.Admitted, "of", pods.Wanted, "pods, by", pods.Decision.By)
	if err := (review.Print{}).Write(os.Stdout, &review.Review{Summary: judged.Summary}, ""); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Deployment shop/web is Admitted
	// 1 generation is stored
	// 0 of 2 pods, by PodSecurity
	// 0 admitted, 1 refused, 0 failed
}

// A snapshot of a cluster is a file by which manifests are judged without the cluster. It holds
// the cluster's policies, quotas and other objects that decide.
func ExampleSnapshot() {
	ctx := context.Background()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		log.Fatal(err)
	}
	cluster, err := review.ConnectCluster(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	snapshot, err := review.Snapshot(ctx, review.Options{Config: server.NewConfig(plugins.List), Live: cluster}, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := snapshot.Write(os.Stdout); err != nil {
		log.Fatal(err)
	}
}
