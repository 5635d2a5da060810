// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"gatehouse.dev/internal/authority"
	"gatehouse.dev/test/peers"
)

const (
	// bareWebhook is an environment variable with the address on which the process that says yes
	// listens.
	bareWebhook = "BENCH_BARE_WEBHOOK"
	// caFile has the authority of its certificate, in its directory.
	caFile = "ca.crt"
	// recordings is how many reviews of a phase it writes down.
	recordings = 100
)

// wantedMarker is in every review of a pod that the plugins wouldn't change.
var wantedMarker = []byte(`"imagePullPolicy":"Always"`)

// serveBareWebhook serves a webhook that says yes, until it is killed. It does what every webhook
// must: it serves TLS, HTTP/2 too, keeps connections, reads the review and answers in its version,
// and nothing else. It writes to its directory, a line for each, the first reviews to mutate that
// are about pods that the plugins would change, and the first to validate that are about pods that
// they accept.
func serveBareWebhook(address string) error {
	certPEM, keyPEM, caPEM, err := bareCertificate()
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return err
	}
	if err := os.WriteFile(caFile, caPEM, 0o600); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	for _, phase := range []string{mutate, validate} {
		record, err := os.Create(phase + ".json")
		if err != nil {
			return err
		}
		mux.Handle("POST /"+phase, yesHandler(record, phase == validate, nil))
	}
	mux.Handle("POST /"+patchingSide, yesHandler(io.Discard, false, constantPatch))
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	server := &http.Server{Handler: mux, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}},
		ReadHeaderTimeout: time.Minute, IdleTimeout: 2 * time.Minute}
	return server.ServeTLS(listener, "", "")
}

func bareCertificate() (certPEM, keyPEM, caPEM []byte, err error) {
	key, err := authority.NewKey()
	if err != nil {
		return nil, nil, nil, err
	}
	validity := authority.Validity{NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 0, 1)}
	ca, err := authority.New("bench", key, validity)
	if err != nil {
		return nil, nil, nil, err
	}
	certPEM, keyPEM, err = ca.Serving("bench", []string{"127.0.0.1"}, validity)
	return certPEM, keyPEM, ca.CertPEM(), err
}

// patchingSide is the name of the side, and the path, that answers reviews of pods that the plugins
// would change with a constant patch. It shows what a patch costs the API server itself.
const patchingSide = "patching"

var constantPatch = []byte(`[{"op":"replace","path":"/spec/containers/0/imagePullPolicy","value":"Always"},` +
	`{"op":"replace","path":"/spec/containers/1/imagePullPolicy","value":"Always"},` +
	`{"op":"add","path":"/spec/nodeSelector/env","value":"prod"},{"op":"add","path":"/spec/tolerations/-","value":` +
	`{"key":"dedicated","operator":"Equal","value":"shared","effect":"NoSchedule"}},` +
	`{"op":"add","path":"/spec/tolerations/-","value":{"key":"node.kubernetes.io/memory-pressure",` +
	`"operator":"Exists","effect":"NoSchedule"}}]`)

// yesHandler returns a handler that allows everything. If there is a patch, it is the answer for
// pods that the plugins would change. The handler records its first reviews: of pods that the
// plugins accept if ofWanted, and of others if not.
func yesHandler(record io.Writer, ofWanted bool, patch []byte) http.Handler {
	var mu sync.Mutex
	recorded := 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		isWanted := bytes.Contains(body, wantedMarker)
		mu.Lock()
		if recorded < recordings && isWanted == ofWanted {
			recorded++
			_, err = record.Write(append(bytes.TrimSpace(body), '\n'))
		}
		mu.Unlock()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if patch != nil && !isWanted {
			response.Patch, response.PatchType = patch, new(admissionv1.PatchTypeJSONPatch)
		}
		answer, err := json.Marshal(&admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer) // the client may have hung up
	})
}

// startBare starts the webhook that says yes.
func startBare(ctx context.Context, dir, port string, env ...string) (*peers.Process, error) {
	itself, err := os.Executable()
	if err != nil {
		return nil, err
	}
	address := "127.0.0.1:" + port
	p, err := startWithEnv(dir, append(env, bareWebhook+"="+address), itself)
	if err != nil {
		return nil, err
	}
	return p, p.AwaitOK(ctx, "https://"+address+"/readyz")
}

// startWithEnv is peers.StartProcess with additional environment variables.
func startWithEnv(dir string, env []string, program string, args ...string) (*peers.Process, error) {
	if len(env) == 0 {
		return peers.StartProcess(dir, program, args...)
	}
	through, err := exec.LookPath("env")
	if err != nil {
		return nil, err
	}
	return peers.StartProcess(dir, through, append(append(env, program), args...)...)
}

// readReviews returns the reviews of a phase that a bare webhook has recorded.
func readReviews(dir, phase string) ([][]byte, error) {
	content, err := os.ReadFile(filepath.Join(dir, phase+".json"))
	if err != nil {
		return nil, err
	}
	var reviews [][]byte
	for line := range bytes.Lines(content) {
		if json.Valid(line) {
			reviews = append(reviews, bytes.TrimSpace(line))
		}
	}
	if len(reviews) == 0 {
		return nil, errors.New("the API server has asked the bare webhook nothing")
	}
	progress("%d recorded reviews to %s, of %s each", len(reviews), phase, fmt.Sprint(len(reviews[0]), " bytes"))
	return reviews, nil
}
