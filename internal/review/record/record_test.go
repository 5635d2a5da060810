// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/testutil"

	"gatehouse.dev/internal/linelog"
	"gatehouse.dev/internal/review/recorded"
)

func open(t *testing.T, o Options) *Log {
	t.Helper()
	log, err := o.Open()
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// read returns the requests of a closed log.
func read(t *testing.T, path string) []*recorded.Request {
	t.Helper()
	r, err := recorded.Open(t.Context(), []string{path}, recorded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all []*recorded.Request
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, record.Decode())
	}
}

func creation(resource, kind, object string) *admissionv1.AdmissionRequest {
	q := &admissionv1.AdmissionRequest{UID: `an "odd" id`, Kind: metav1.GroupVersionKind{Version: "v1", Kind: kind},
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: resource}, Namespace: "n", Name: "a",
		Operation: admissionv1.Create, UserInfo: authenticationv1.UserInfo{Username: "alice"}}
	q.Object.Raw = []byte(object)
	return q
}

// Details and the answer are read again, and a line has no newline in it.
func TestDetails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record.log")
	log := open(t, Options{Path: path})
	q := creation("configmaps", "ConfigMap", "{\"apiVersion\":\"v1\",\r\n\"kind\":\"ConfigMap\",\"metadata\":{\"uid\":\"u\"}}")
	now := metav1.NewMicroTime(time.Now().Truncate(time.Microsecond))
	log.Add(q, &admissionv1.AdmissionResponse{Allowed: true, Result: &metav1.Status{Code: 409}}, recorded.Details{Time: now,
		Verb: "patch", UserAgent: "kubectl", Outcome: recorded.NoNews})
	log.Add(q, nil, recorded.Details{Time: now})
	log.Add(q, &admissionv1.AdmissionResponse{Result: &metav1.Status{Code: 403, Message: "no", Reason: "Forbidden"}},
		recorded.Details{Time: now, Outcome: recorded.Refused, Validating: true})
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	all := read(t, path)
	if len(all) != 3 {
		t.Fatalf("%d requests", len(all))
	}
	for i, want := range []struct {
		verb     string
		stored   bool
		recorded recorded.Recorded
	}{
		{"patch", false, recorded.Recorded{Outcome: recorded.NoNews, Code: 409}},
		{"create", false, recorded.Recorded{}},
		{"create", true, recorded.Recorded{Outcome: recorded.Refused, Code: 403, Message: "no", Reason: "Forbidden"}},
	} {
		got := all[i]
		if diff := cmp.Diff(want.recorded, got.Recorded); diff != "" || got.Unjudged != "" || got.Verb != want.verb ||
			got.Stored != want.stored || !got.Time.Equal(now.Time) || got.ID != string(q.UID) ||
			strings.Contains(string(got.Object), "uid") == want.stored {
			t.Errorf("request %d: %+v %s", i, got, diff)
		}
	}
	if all[0].UserAgent != "kubectl" || string(q.Object.Raw[:17]) != `{"apiVersion":"v1` {
		t.Errorf("%+v, %s", all[0], q.Object.Raw)
	}
}

// Nothing of a Secret's values is in the file, nor a token, nor a review of access.
func TestSecretsAreLeftOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record.log")
	log := open(t, Options{Path: path})
	secret := creation("secrets", "Secret", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","annotations":{`+
		`"kubectl.kubernetes.io/last-applied-configuration":"{\"stringData\":{\"k\":\"hidden\"}}","copy":"hidden"}},`+
		`"data":{"k":"hidden"},"stringData":{"l":"hidden"}}`)
	secret.OldObject.Raw, secret.Operation = secret.Object.Raw, admissionv1.Update
	token := creation("serviceaccounts", "TokenRequest",
		`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","spec":{},"status":{"token":"hidden"}}`)
	token.SubResource, token.Kind.Group = "token", "authentication.k8s.io"
	review := creation("tokenreviews", "TokenReview", `{"spec":{"token":"hidden"}}`)
	review.Resource.Group = "authentication.k8s.io"
	for _, q := range []*admissionv1.AdmissionRequest{secret, token, review} {
		log.Add(q, nil, recorded.Details{})
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil || bytes.Contains(content, []byte("hidden")) {
		t.Errorf("%s %v", content, err)
	}
	if all := read(t, path); len(all) != 2 || all[0].Unjudged != recorded.RedactedSecret || all[1].Unjudged != "" {
		t.Errorf("%+v", all)
	}
}

// The file is rotated by size and bounded in number, its owner's only, and old lines stay.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "logs", "record.log")
	large := creation("configmaps", "ConfigMap", `{"apiVersion":"v1","kind":"ConfigMap","data":{"k":"`+
		strings.Repeat("x", 300<<10)+`"}}`)
	for range 2 {
		log := open(t, Options{Path: path, MaxSize: 1, MaxBackup: 5})
		for range 4 {
			log.Add(large, nil, recorded.Details{})
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 3 {
		t.Fatalf("files %v: %v", files, err)
	}
	for _, file := range files {
		if info, err := file.Info(); err != nil || info.Mode() != 0o600 || info.Size() > 1<<20 {
			t.Errorf("%s: %v, %d bytes: %v", file.Name(), info.Mode(), info.Size(), err)
		}
	}
	if all := read(t, filepath.Dir(path)); len(all) != 8 {
		t.Errorf("%d requests were read", len(all))
	}
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }
func (full) Close() error              { return nil }

// Requests that the disk has no space for are counted.
func TestFullDisk(t *testing.T) {
	registerMetrics()
	count := func() float64 {
		n, err := testutil.GetCounterMetricValue(droppedTotal.WithLabelValues("disk"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count()
	log := &Log{linelog.New(full{}, linelog.Options{OnError: onDiskError})}
	log.Add(creation("configmaps", "ConfigMap", `{}`), nil, recorded.Details{})
	if err := log.Close(); err != nil || count() != before+1 {
		t.Errorf("%v dropped: %v", count()-before, err)
	}
}

// Wrong options are errors that name the flag.
func TestOptions(t *testing.T) {
	dir := t.TempDir()
	_, err := (&Options{Path: dir}).Open()
	for i, got := range []error{err, (&Options{Path: "-"}).Validate(), (&Options{MaxSize: -1}).Validate(),
		(&Options{MaxBackup: -1}).Validate()} {
		flag := []string{"--record: ", "--record: ", "--record-maxsize: ", "--record-maxbackup: "}[i]
		if got == nil || !strings.HasPrefix(got.Error(), flag) {
			t.Errorf("error %v, want one of %s", got, flag)
		}
	}
	if err == nil || !strings.Contains(fmt.Sprint(err), dir) {
		t.Errorf("error %v doesn't name the file", err)
	}
	if log, err := (&Options{}).Open(); log != nil || err != nil {
		t.Errorf("without a file: %v, %v", log, err)
	}
}
