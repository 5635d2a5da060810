package review_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/plugins"
	"gatehouse.dev/review"
	"gatehouse.dev/server"
)

// A Go test judges manifests as the command does, and looks at the verdicts.
func Example() {
	read := func(text string) []input.Document {
		documents, errs := input.Read([]string{"-"}, strings.NewReader(text))
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
