// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/klog/v2"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/apiserver"
	"gatehouse.dev/internal/decision"
	"gatehouse.dev/internal/decision/api"
)

// newRecorder makes the server record its decisions and serve them.
func (s *Server) newRecorder() (*decision.Recorder, error) {
	c := s.config
	// The server's name has its port, which is known once it listens.
	s.decisions = decision.NewStore("", c.Decisions.MaxCount, c.Decisions.MaxBytes)
	var err error
	if s.decisionLog, err = c.Decisions.OpenLog(); err != nil {
		return nil, err
	}
	var listeners []func(*v1alpha1.Decision)
	if s.decisionLog != nil {
		listeners = append(listeners, s.decisionLog.Tell)
	}
	recorder := decision.NewRecorder(s.decisions, c.Decisions.Values, listeners...)
	c.API.Extensions = []apiserver.Extension{{
		Group: func(env apiserver.ExtensionEnv) *server.APIGroupInfo {
			s.decisions.SetServer(env.Name, env.Peers != nil)
			return api.Group(s.decisions, env.Authorizer, env.Peers)
		},
		Scheme: api.Scheme,
		Roles: []rbacv1.ClusterRole{{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ViewerRole},
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{v1alpha1.SchemeGroupVersion.Group},
				Resources: []string{v1alpha1.Decisions.Resource},
				Verbs:     []string{"get", "list", "watch"},
			}},
		}},
		Filter:        recorder.Filter,
		OuterFilter:   decision.WithRequester,
		Authenticator: decision.Authenticator,
	}}
	return recorder, nil
}

// closeLogs writes what waits for the decision log and for the record, and closes both.
func (s *Server) closeLogs() {
	if s.decisionLog != nil {
		if err := s.decisionLog.Close(); err != nil {
			klog.ErrorS(err, "Closing the decision log")
		}
	}
	if s.record != nil {
		if err := s.record.Close(); err != nil {
			klog.ErrorS(err, "Closing the record")
		}
	}
}
