// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// audit builds lines of an audit log as kube-apiserver writes them.
type audit struct {
	id, level, stage, verb, uri, user, group, version, resource, subresource, namespace, name string
	code                                                                                      int
	message, decision, request, response, annotations, impersonated                           string
	at                                                                                        time.Time
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const microTime = "2006-01-02T15:04:05.000000Z07:00"

var lastID int

func (a audit) line() string {
	lastID++
	set := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	set(&a.id, fmt.Sprintf("id-%d", lastID))
	set(&a.level, "RequestResponse")
	set(&a.stage, "ResponseComplete")
	set(&a.version, "v1")
	set(&a.resource, "configmaps")
	set(&a.user, "alice")
	set(&a.decision, "allow")
	set(&a.namespace, "default")
	if a.uri == "" {
		a.uri = "/api/v1/namespaces/" + a.namespace + "/" + a.resource + "/" + a.name + "?fieldManager=test"
	}
	if a.code == 0 {
		a.code = 200
	}
	if a.at.IsZero() {
		a.at = began.Add(time.Duration(lastID) * time.Millisecond)
	}
	quote := func(s string) string { data, _ := json.Marshal(s); return string(data) }
	line := fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":%q,"auditID":%q,"stage":%q,"requestURI":%s,`+
		`"verb":%q,"user":{"username":%q,"uid":"u-1","groups":["dev","system:authenticated"],"extra":{"k":["v"]}},`,
		a.level, a.id, a.stage, quote(a.uri), a.verb, a.user)
	if a.impersonated != "" {
		line += fmt.Sprintf(`"impersonatedUser":{"username":%q,"groups":["g"]},`, a.impersonated)
	}
	line += fmt.Sprintf(`"sourceIPs":["127.0.0.1"],"userAgent":"kubectl/v1.37","objectRef":{"resource":%q,"namespace":%q,`+
		`"name":%q,"apiGroup":%q,"apiVersion":%q,"subresource":%q},"responseStatus":{"metadata":{},"message":%s,"code":%d},`,
		a.resource, a.namespace, a.name, a.group, a.version, a.subresource, quote(a.message), a.code)
	if a.request != "" {
		line += `"requestObject":` + a.request + `,`
	}
	if a.response != "" {
		line += `"responseObject":` + a.response + `,`
	}
	return line + fmt.Sprintf(`"requestReceivedTimestamp":%q,"stageTimestamp":%q,"annotations":{%s`+
		`"authorization.k8s.io/decision":%q}}`, a.at.Format(microTime), a.at.Add(time.Millisecond).Format(microTime),
		a.annotations, a.decision) + "\n"
}

// configMap returns a stored ConfigMap of one value.
func configMap(name, value string, version int) string {
	return fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"namespace":"default","uid":"uid-%s",`+
		`"resourceVersion":"%d","creationTimestamp":"2026-01-01T00:00:00Z"},"data":{"k":%q}}`, name, name, version, value)
}

// createdMap, putMap, patchedMap and deletedMap are writes of a ConfigMap. version is the one that
// is stored.
func createdMap(name, value string, version int) audit {
	return audit{verb: "create", name: name, code: 201, response: configMap(name, value, version),
		request: fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q},"data":{"k":%q}}`, name, value)}
}

func patchedMap(name, value string, version int) audit {
	return audit{verb: "patch", name: name, response: configMap(name, value, version),
		request: fmt.Sprintf(`{"data":{"k":%q}}`, value)}
}

func deletedMap(name string) audit {
	return audit{verb: "delete", name: name, request: `{"kind":"DeleteOptions","apiVersion":"v1"}`,
		response: `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`}
}

// logFile writes a log.
func logFile(t testing.TB, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// readAll reads what Open opens, to the end.
func readAll(t testing.TB, options Options, names ...string) ([]*Request, *Reader, error) {
	t.Helper()
	r, err := Open(t.Context(), names, options)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	var all []*Request
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, r, nil
		}
		if err != nil {
			return all, r, err
		}
		all = append(all, record.Decode())
	}
}

// requests reads a log that has no fault.
func requests(t testing.TB, options Options, lines ...audit) []*Request {
	t.Helper()
	var log strings.Builder
	for _, l := range lines {
		log.WriteString(l.line())
	}
	all, _, err := readAll(t, options, logFile(t, log.String()))
	if err != nil {
		t.Fatal(err)
	}
	return all
}
