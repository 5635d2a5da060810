// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestImageName(t *testing.T) {
	for image, want := range map[string]string{
		"registry.k8s.io/e2e-test-images/agnhost:2.53":          "agnhost",
		"registry.k8s.io/e2e-test-images/busybox:1.36@sha256:a": "busybox",
		"registry.k8s.io/pause":                                 "pause",
		"webserver:404":                                         "",
	} {
		if got := imageName(image); got != want {
			t.Errorf("%s: got %q, want %q", image, got, want)
		}
	}
}

func TestRunsProgram(t *testing.T) {
	const agnhost, pause = "registry.k8s.io/agnhost:2", "registry.k8s.io/pause:3"
	for name, test := range map[string]struct {
		container corev1.Container
		want      bool
	}{
		"agnhost that waits":    {corev1.Container{Image: agnhost}, false},
		"agnhost pause":         {corev1.Container{Image: agnhost, Args: []string{"pause"}}, false},
		"agnhost webhook":       {corev1.Container{Image: agnhost, Args: []string{"webhook"}}, true},
		"a shell in agnhost":    {corev1.Container{Image: agnhost, Command: []string{"sh"}}, true},
		"a command in no image": {corev1.Container{Image: pause, Command: []string{"sh"}}, false},
	} {
		if got := runsProgram(&test.container); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
}

func TestPhase(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
	ended := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	for name, test := range map[string]struct {
		inits, containers []corev1.ContainerState
		want              corev1.PodPhase
	}{
		"new":             {nil, []corev1.ContainerState{waiting}, corev1.PodPending},
		"one runs":        {nil, []corev1.ContainerState{running, waiting}, corev1.PodRunning},
		"one has ended":   {nil, []corev1.ContainerState{running, ended(0)}, corev1.PodRunning},
		"all have ended":  {nil, []corev1.ContainerState{ended(0), ended(0)}, corev1.PodSucceeded},
		"one has failed":  {nil, []corev1.ContainerState{ended(0), ended(1)}, corev1.PodFailed},
		"an init runs":    {[]corev1.ContainerState{running}, []corev1.ContainerState{waiting}, corev1.PodPending},
		"an init failed":  {[]corev1.ContainerState{ended(1)}, []corev1.ContainerState{waiting}, corev1.PodFailed},
		"after the inits": {[]corev1.ContainerState{ended(0)}, []corev1.ContainerState{running}, corev1.PodRunning},
	} {
		p := &pod{inits: statuses(test.inits), containers: statuses(test.containers)}
		if got := p.phase(); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

func statuses(states []corev1.ContainerState) []corev1.ContainerStatus {
	var all []corev1.ContainerStatus
	for _, state := range states {
		all = append(all, corev1.ContainerStatus{State: state})
	}
	return all
}
