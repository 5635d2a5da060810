// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package imagepolicywebhook implements the admission plugin ImagePolicyWebhook, which asks a
// backend outside the server whether the images of a pod may run.
//
// It posts an ImageReview of imagepolicy.k8s.io/v1alpha1 with the pod's images, namespace and
// annotations of the form *.image-policy.k8s.io/*. For the subresource ephemeralcontainers it sends
// the images of the ephemeral containers. It remembers at most 1024 answers, for the TTLs of the
// configuration. A question is the same if images, annotations and namespace are, whatever the user
// and the pod's name.
//
// The plugin retries after a reset connection and the statuses 429, 500 and 504, four times at
// most. If it gets no answer, the configuration's defaultAllow decides; a request that is admitted
// that way gets an audit annotation. Failures are not remembered.
package imagepolicywebhook

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/podspec"
)

const (
	name = "ImagePolicyWebhook"

	// auditPrefix is the prefix of all audit annotations of the plugin and its backend.
	auditPrefix = "imagepolicywebhook.image-policy.k8s.io/"
	// failedOpen is the annotation of requests that were admitted although the backend failed.
	failedOpen = auditPrefix + "failed-open"

	// annotationInfix is part of the keys of the annotations that the backend gets.
	annotationInfix = ".image-policy.k8s.io/"

	ephemeralContainers = "ephemeralcontainers"

	// remembered is the number of remembered answers, as upstream.
	remembered = 1024
)

var pods = corev1.Resource("pods")

//go:embed README.md
var manual string

// Descriptor describes ImagePolicyWebhook. It needs nothing but its configuration, which must be
// there.
//
//schema:configuration fileFormat
var Descriptor = plugin.Descriptor{
	Name:    name,
	Summary: "Asks a backend whether the images of a pod may run",
	Manual:  manual,
	Remedy: "Take images that the backend of the image policy allows. Where the backend fails it has to answer, " +
		"or the plugin's configuration to have defaultAllow.",
	Phases:     plugin.Validating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	Resources:  plugin.On(pods, "", ephemeralContainers),
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		c, err := load(config)
		if err != nil {
			return nil, err
		}
		return &imagePolicyWebhook{
			configuration: c,
			answers:       cache.NewLRUExpireCache(remembered),
			calls:         env.Webhooks,
			address:       c.backend.RestClient.Post().URL(),
		}, nil
	},
}

type imagePolicyWebhook struct {
	*configuration
	// answers holds *imagepolicyv1alpha1.ImageReviewStatus by the hash of their question.
	answers *cache.LRUExpireCache
	// calls says whether the plugin asks the backend at all.
	calls plugin.WebhookCalls
	// address is the backend's URL.
	address *url.URL
}

var _ plugin.Validator = &imagePolicyWebhook{}

// Validate asks the backend about the images of a pod.
func (p *imagePolicyWebhook) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil {
		return err
	}
	spec := question(pod, a)
	if ask, err := p.calls.Ask(a, name, p.address, func() string { return imagesOf(&spec) }); err != nil {
		return p.failed(a, err)
	} else if !ask {
		return nil
	}
	status, err := p.review(ctx, spec)
	if err != nil {
		return p.failed(a, err)
	}
	for key, value := range status.AuditAnnotations {
		if err := a.AddAnnotation(auditPrefix+key, value); err != nil {
			klog.ErrorS(err, "Audit annotation of the image policy backend dropped; correct it in the backend", "plugin",
				name, "key", key, "value", value)
		}
	}
	switch {
	case status.Allowed:
		return nil
	case status.Reason == "":
		return admission.NewForbidden(a, errors.New("one or more images rejected by webhook backend"))
	default:
		return admission.NewForbidden(a,
			fmt.Errorf("image policy webhook backend denied one or more images: %s", status.Reason))
	}
}

// question returns the spec for the backend. Containers come before init containers, as upstream.
// Images of volumes, which upstream leaves out, come last as if they were containers': the format
// has no other field, and they reach the node in the same way.
//
// Source: k8s.io/kubernetes/plugin/pkg/admission/imagepolicy#Plugin.Validate d9246fe5
func question(pod *corev1.Pod, a admission.Attributes) imagepolicyv1alpha1.ImageReviewSpec {
	spec := imagepolicyv1alpha1.ImageReviewSpec{Namespace: a.GetNamespace()}
	add := func(image string) {
		spec.Containers = append(spec.Containers, imagepolicyv1alpha1.ImageReviewContainerSpec{Image: image})
	}
	if a.GetSubresource() == ephemeralContainers {
		for i := range pod.Spec.EphemeralContainers {
			add(pod.Spec.EphemeralContainers[i].Image)
		}
	} else {
		for i := range pod.Spec.Containers {
			add(pod.Spec.Containers[i].Image)
		}
		for i := range pod.Spec.InitContainers {
			add(pod.Spec.InitContainers[i].Image)
		}
		for i := range pod.Spec.Volumes {
			if image := pod.Spec.Volumes[i].Image; image != nil && image.Reference != "" {
				add(image.Reference)
			}
		}
	}
	for key, value := range pod.Annotations {
		if strings.Contains(key, annotationInfix) {
			if spec.Annotations == nil {
				spec.Annotations = map[string]string{}
			}
			spec.Annotations[key] = value
		}
	}
	return spec
}

// imagesOf returns the images of a question, in words.
func imagesOf(spec *imagepolicyv1alpha1.ImageReviewSpec) string {
	images := make([]string, len(spec.Containers))
	for i := range spec.Containers {
		images[i] = spec.Containers[i].Image
	}
	return "images " + strings.Join(images, ", ")
}

// review returns the answer to the question, the remembered one or the backend's. It returns an
// error if there is none.
func (p *imagePolicyWebhook) review(ctx context.Context,
	question imagepolicyv1alpha1.ImageReviewSpec) (*imagepolicyv1alpha1.ImageReviewStatus, error) {
	encoded, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256(encoded)
	if answer, ok := p.answers.Get(key); ok {
		return answer.(*imagepolicyv1alpha1.ImageReviewStatus), nil
	}
	result := p.backend.WithExponentialBackoff(ctx, func() rest.Result {
		return p.backend.RestClient.Post().Body(&imagepolicyv1alpha1.ImageReview{Spec: question}).Do(ctx)
	})
	var answer imagepolicyv1alpha1.ImageReview
	if err := result.Into(&answer); err != nil {
		if ctx.Err() != nil {
			// The context may have ended before the first call. Then the result doesn't say so.
			err = context.Cause(ctx)
		}
		return nil, err
	}
	ttl := p.denyTTL
	if answer.Status.Allowed {
		ttl = p.allowTTL
	}
	if ttl > 0 {
		p.answers.Add(key, &answer.Status, ttl)
	}
	return &answer.Status, nil
}

// failed decides without the backend. The backend's status is not the request's: a 403 from the
// backend is about the plugin's identity.
func (p *imagePolicyWebhook) failed(a admission.Attributes, err error) error {
	if !p.defaultAllow {
		return admission.NewForbidden(a, fmt.Errorf("error contacting webhook backend: %v", err))
	}
	klog.V(2).InfoS("The image policy webhook backend failed, the request is admitted", "namespace", a.GetNamespace(),
		"pod", a.GetName(), "err", err)
	return a.AddAnnotation(failedOpen, "true")
}
