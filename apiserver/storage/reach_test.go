// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/storage/storagebackend"

	"gatehouse.dev/internal/webhooktest"
)

// A cluster of which no server can be reached is told from one that is only slow.
func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	open := "http://" + listener.Addr().String() // accepts, and never answers
	defer listener.Close()
	gone := webhooktest.Refusing(t)
	closed := "http://" + gone
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = nil
	secure.StartTLS()
	defer secure.Close()
	for _, test := range []struct {
		servers []string
		want    string
	}{
		{[]string{open}, ""},
		{[]string{closed, open}, ""},
		{[]string{closed}, closed + ": dial tcp " + gone + ": connect: connection refused"},
		{[]string{secure.URL}, "certificate"},
		{[]string{"unix:///none"}, ""},
	} {
		err := Unreachable(t.Context(), storagebackend.TransportConfig{ServerList: test.servers})
		if test.want == "" && err != nil || err == nil && test.want != "" ||
			err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: got %v, want %q", test.servers, err, test.want)
		}
	}
}
