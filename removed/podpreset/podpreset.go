// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podpreset implements the admission plugin PodPreset, which gives new pods environment
// variables and volumes that their authors needn't know. Kubernetes had it until 1.19.
//
// A PodPreset (see package apis/settings/v1alpha1) selects pods of its namespace by labels. The pod
// gets its volumes; each container and init container gets its environment variables, sources of
// variables and mounts. Annotations of the pod, podpreset.admission.kubernetes.io/podpreset-<name>,
// name the presets and their resource versions. Mirror pods, pods with the annotation
// podpreset.admission.kubernetes.io/exclude: "true" and existing pods are left alone.
//
// All presets that select a pod are merged in the order of their names, or none is. Presets
// conflict if the pod or another preset has the same variable, source or volume with another
// content, another volume at the same path, or the same volume at another path. A pod with a
// conflict is admitted unchanged, and an event in its namespace gives the reason.
package podpreset

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/podspec"
	"gatehouse.dev/plugin/ready"
	"gatehouse.dev/plugin/typed"
	settingsv1alpha1 "gatehouse.dev/removed/apis/settings/v1alpha1"
)

const (
	name = "PodPreset"

	excludeAnnotation      = "podpreset.admission.kubernetes.io/exclude"
	presetAnnotationPrefix = "podpreset.admission.kubernetes.io/podpreset-"

	// conflictReason is the reason of the event.
	conflictReason = "PodPresetConflict"
	// messageLimit is the length, in bytes, of the longest message that an event may have.
	messageLimit = 1024
)

var pods = corev1.Resource("pods")

//go:embed README.md
var manual string

// Descriptor describes PodPreset. It needs a client, a dynamic client and informers.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Gives new pods the environment, volumes and mounts of the PodPresets that select them",
	Manual:     manual,
	Phases:     plugin.Mutating,
	Operations: []admission.Operation{admission.Create},
	Resources:  plugin.On(pods),
	Access: []rbacv1.PolicyRule{
		plugin.To("list watch", "settings.k8s.io", "podpresets"),
		plugin.To("create patch", "", "events"),
	},
	Server: plugin.Server{
		Needs: []schema.GroupVersionResource{settingsv1alpha1.PodPresets},
		Definitions: map[schema.GroupVersionResource][]byte{
			settingsv1alpha1.PodPresets: settingsv1alpha1.Definition,
		},
	},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		if env.Client == nil {
			return nil, errors.New(name + " needs a client")
		}
		informer, err := typed.Informer(name, env, settingsv1alpha1.PodPresets, &settingsv1alpha1.PodPreset{},
			&settingsv1alpha1.PodPresetList{})
		if err != nil {
			return nil, err
		}
		presets, err := typed.Compile(informer, byNamespace)
		if err != nil {
			return nil, err
		}
		return &podPreset{
			ready:    ready.After(informer),
			presets:  presets,
			recorder: sync.OnceValue(func() record.EventRecorder { return newRecorder(env) }),
		}, nil
	},
}

type podPreset struct {
	ready    ready.Gate
	presets  *typed.Compiled[map[string][]preset]
	recorder func() record.EventRecorder // made for the first conflict
}

var _ plugin.Mutator = &podPreset{}

// preset holds a PodPreset, ready for use.
type preset struct {
	*settingsv1alpha1.PodPreset
	selector labels.Selector
}

// byNamespace returns presets made ready for use, by namespace and in the order of their names.
func byNamespace(objects []any) map[string][]preset {
	all := map[string][]preset{}
	for _, object := range objects {
		p, ok := object.(*settingsv1alpha1.PodPreset)
		if !ok {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(&p.Spec.Selector)
		if err != nil {
			// The API server doesn't accept such a selector.
			klog.ErrorS(err, "PodPreset ignored: its selector is invalid; correct spec.selector", "plugin", name, "podpreset",
				klog.KObj(p))
			continue
		}
		all[p.Namespace] = append(all[p.Namespace], preset{p, selector})
	}
	for _, presets := range all {
		slices.SortFunc(presets, func(a, b preset) int { return strings.Compare(a.Name, b.Name) })
	}
	return all
}

// Admit gives a new pod the content of the presets that select it.
func (p *podPreset) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if err := p.ready.Wait(ctx, a); err != nil {
		return err
	}
	presets := p.presets.Get()[a.GetNamespace()]
	if len(presets) == 0 {
		return nil
	}
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil {
		return err
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror ||
		pod.Annotations[excludeAnnotation] == "true" {
		return nil
	}
	var selected []preset
	for _, one := range presets {
		if one.selector.Matches(labels.Set(pod.Labels)) {
			selected = append(selected, one)
		}
	}
	if len(selected) == 0 {
		return nil
	}
	spec, conflicts := merge(&pod.Spec, selected)
	if len(conflicts) > 0 {
		p.report(a, pod, selected, conflicts)
		return nil
	}
	pod.Spec = *spec
	annotations := maps.Clone(pod.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	for _, one := range selected {
		annotations[annotationOf(one.Name)] = one.ResourceVersion
	}
	pod.Annotations = annotations
	return nil
}

// annotationOf returns the annotation that names a preset. The length of a key after the slash is
// limited. A longer name, which no new preset can have, is cut and made unique by its hash;
// otherwise the pods that the preset selects would be invalid.
func annotationOf(preset string) string {
	if most := 63 - len("podpreset-"); len(preset) > most {
		hash := fmt.Sprintf("-%.4x", sha256.Sum256([]byte(preset)))
		preset = preset[:most-len(hash)] + hash
	}
	return presetAnnotationPrefix + preset
}

// hasPresets reports whether the plugin gave the pod something earlier in this request, before
// webhooks changed it.
func hasPresets(a admission.Attributes, pod *corev1.Pod) bool {
	again := a.GetReinvocationContext()
	if again == nil || !again.IsReinvoke() {
		return false
	}
	for key := range pod.Annotations {
		if strings.HasPrefix(key, presetAnnotationPrefix) {
			return true
		}
	}
	return false
}

// report writes an event that says why a pod gets nothing, or nothing more. The pod doesn't exist
// yet, so the event can name it only by its name.
func (p *podPreset) report(a admission.Attributes, pod *corev1.Pod, selected []preset, conflicts []string) {
	var names []string
	for _, one := range selected {
		names = append(names, one.Name)
	}
	of := pod.Name
	if of == "" {
		of = pod.GenerateName
	}
	which := "is created without anything of"
	if hasPresets(a, pod) {
		which = "keeps what it has got already, without anything more of"
	}
	message := "Conflict on pod " + of + ", which " + which + " the pod presets " + strings.Join(names, ", ") + ": " +
		strings.Join(conflicts, "; ")
	klog.V(2).InfoS("Conflict of pod presets", "plugin", name, "pod", klog.KRef(a.GetNamespace(), of), "conflict",
		message)
	if a.IsDryRun() {
		return
	}
	p.recorder().Event(&corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: a.GetNamespace(),
		Name: pod.Name},
		corev1.EventTypeWarning, conflictReason, shortened(message, messageLimit))
}

// newRecorder returns a recorder that writes events in the background, so a pod doesn't wait for
// its event. Of equal events only the first is written; the others are counted in it.
func newRecorder(env *plugin.Env) record.EventRecorder {
	events := record.NewBroadcaster()
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: env.Client.CoreV1().Events("")})
	go func() {
		<-env.Done
		events.Shutdown()
	}()
	return events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "podpreset"})
}

// shortened returns the text, cut to at most limit bytes.
func shortened(text string, limit int) string {
	const more = "…"
	if len(text) <= limit {
		return text
	}
	end := limit - len(more)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}
