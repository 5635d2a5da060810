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
	// bareWebhook is in the environment of the process that says yes: where it listens.
	bareWebhook = "BENCH_BARE_WEBHOOK"
	// caFile is the authority of its certificate, in its directory.
	caFile = "ca.crt"
	// recordings is how many reviews of a phase it writes down.
	recordings = 100
)

// always is what pods have that are as they are wanted.
var always = []byte(`"imagePullPolicy":"Always"`)

// asBareWebhook is a webhook that says yes, until it is killed. It does what every webhook must: it
// serves TLS, HTTP/2 too, keeps connections, reads the review and answers in its version, and
// nothing else. The first reviews to mutate of pods that the plugins would change, and those to
// validate of pods that they let pass, are written to its directory, a line for each.
func asBareWebhook(address string) error {
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
		mux.Handle("POST /"+phase, sayYes(record, phase == validate, nil))
	}
	mux.Handle("POST /"+patching, sayYes(io.Discard, false, constantPatch))
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

// patching is the path at which reviews of pods that aren't as they are wanted are answered with
// one and the same patch: it tells what an API server does with a patch, whoever made it.
const patching = "patching"

var constantPatch = []byte(`[{"op":"replace","path":"/spec/containers/0/imagePullPolicy","value":"Always"},` +
	`{"op":"replace","path":"/spec/containers/1/imagePullPolicy","value":"Always"},` +
	`{"op":"add","path":"/spec/nodeSelector/env","value":"prod"},{"op":"add","path":"/spec/tolerations/-","value":` +
	`{"key":"dedicated","operator":"Equal","value":"shared","effect":"NoSchedule"}},` +
	`{"op":"add","path":"/spec/tolerations/-","value":{"key":"node.kubernetes.io/memory-pressure",` +
	`"operator":"Exists","effect":"NoSchedule"}}]`)

// sayYes answers reviews, those about pods that aren't as they are wanted with a patch if there is
// one. It writes down the first of those that are about pods as they are wanted, or else of others.
func sayYes(record io.Writer, ofWanted bool, patch []byte) http.Handler {
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
		isWanted := bytes.Contains(body, always)
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
		_, _ = w.Write(answer) // who hung up gets no answer
	})
}

// startBare starts that process.
func startBare(ctx context.Context, dir, port string, env ...string) (*peers.Process, error) {
	itself, err := os.Executable()
	if err != nil {
		return nil, err
	}
	address := "127.0.0.1:" + port
	p, err := startWith(dir, append(env, bareWebhook+"="+address), itself)
	if err != nil {
		return nil, err
	}
	return p, p.AwaitOK(ctx, "https://"+address+"/readyz")
}

// startWith is peers.StartProcess with more in the environment.
func startWith(dir string, env []string, program string, args ...string) (*peers.Process, error) {
	if len(env) == 0 {
		return peers.StartProcess(dir, program, args...)
	}
	through, err := exec.LookPath("env")
	if err != nil {
		return nil, err
	}
	return peers.StartProcess(dir, through, append(append(env, program), args...)...)
}

// recordedReviews are the reviews of a phase that a bare webhook has written down.
func recordedReviews(dir, phase string) ([][]byte, error) {
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
