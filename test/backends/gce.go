// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backends

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Project is the one that GCE has.
const Project = "example-project"

const (
	account = "gatehouse@example-project.iam.gserviceaccount.com"
	// accountToken and machineToken are what the service account and the machine get.
	accountToken, machineToken = "ya29.ACCOUNT", "ya29.MACHINE"
)

// A Disk is a persistent disk. It has a zone, or the zones that it is replicated in.
type Disk struct {
	Name     string
	Zone     string
	Replicas []string
}

// scope is where the disk is listed.
func (d Disk) scope() string {
	if d.Zone != "" {
		return "zones/" + d.Zone
	}
	return "regions/" + d.Replicas[0][:strings.LastIndex(d.Replicas[0], "-")]
}

func (d Disk) json(server string) map[string]any {
	project := server + "/compute/v1/projects/" + Project + "/"
	object := map[string]any{"kind": "compute#disk", "id": "1", "name": d.Name, "sizeGb": "10", "status": "READY"}
	if d.Zone != "" {
		object["zone"] = project + "zones/" + d.Zone
		return object
	}
	object["region"] = project + d.scope()
	var replicas []string
	for _, zone := range d.Replicas {
		replicas = append(replicas, project+"zones/"+zone)
	}
	object["replicaZones"] = replicas
	return object
}

// GCE answers for disks; listed in all zones, each zone and region is a page of its own. Its
// service account's key is in the CredentialsFile, and tokens for it are at /token.
func GCE(t testing.TB, disks ...Disk) *Cloud {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	var c *Cloud
	c = start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			giveToken(w, r, &key.PublicKey, c.URL)
			return
		}
		if authorized := r.Header.Get("Authorization"); authorized != "Bearer "+accountToken &&
			authorized != "Bearer "+machineToken {
			GCEError(http.StatusUnauthorized, "authError", "Request had invalid authentication credentials.")(w, r)
			return
		}
		path, ok := strings.CutPrefix(r.URL.Path, "/compute/v1/projects/"+Project+"/")
		if !ok || r.Method != http.MethodGet {
			GCEError(http.StatusNotFound, "notFound", "The resource was not found")(w, r)
			return
		}
		if path == "aggregated/disks" {
			list(w, r, c.URL, disks)
			return
		}
		for _, d := range disks {
			if path == d.scope()+"/disks/"+d.Name {
				JSON(http.StatusOK, d.json(c.URL))(w, r)
				return
			}
		}
		GCEError(http.StatusNotFound, "notFound", "The resource 'projects/"+Project+"/"+path+"' was not found")(w, r)
	})
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": Project, "private_key_id": "key-1", "client_email": account,
		"token_uri":   c.URL + "/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})),
	})
	if err != nil {
		t.Fatal(err)
	}
	c.CredentialsFile = filepath.Join(t.TempDir(), "key.json")
	write(t, c.CredentialsFile, file)
	return c
}

// MetadataServer runs one, without TLS as it is, which ends with the test, and returns its address.
func MetadataServer(t testing.TB) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Metadata-Flavor") != "Google":
			http.Error(w, "Missing Metadata-Flavor:Google header.", http.StatusForbidden)
		case r.URL.String() != "/computeMetadata/v1/instance/service-accounts/default/token":
			http.NotFound(w, r)
		default:
			JSON(http.StatusOK,
				map[string]any{"access_token": machineToken, "expires_in": 3599, "token_type": "Bearer"})(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// giveToken exchanges what the service account has signed, by
// https://developers.google.com/identity/protocols/oauth2/service-account.
func giveToken(w http.ResponseWriter, r *http.Request, key *rsa.PublicKey, url string) {
	claims, err := verified(r.PostFormValue("assertion"), key)
	switch {
	case r.PostFormValue("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer":
		JSON(http.StatusBadRequest,
			map[string]string{"error": "unsupported_grant_type", "error_description": "Invalid grant_type"})(w, r)
	case err != nil || claims.Issuer != account || claims.Audience != url+"/token" ||
		time.Now().Before(time.Unix(claims.Issued, 0)) || time.Now().After(time.Unix(claims.Expires, 0)):
		JSON(http.StatusBadRequest,
			map[string]string{"error": "invalid_grant", "error_description": "Invalid JWT Signature."})(w, r)
	case claims.Scope != "https://www.googleapis.com/auth/compute.readonly":
		JSON(http.StatusBadRequest,
			map[string]string{"error": "invalid_scope", "error_description": "Invalid OAuth scope."})(w, r)
	default:
		JSON(http.StatusOK, map[string]any{"access_token": accountToken, "expires_in": 3599, "token_type": "Bearer"})(w,
			r)
	}
}

// assertedClaims are what the service account says of itself. Times are in seconds since 1970.
type assertedClaims struct {
	Issuer   string `json:"iss"`
	Audience string `json:"aud"`
	Scope    string `json:"scope"`
	Issued   int64  `json:"iat"`
	Expires  int64  `json:"exp"`
}

// verified returns what a JSON web token says that the key-1 has signed by RS256,
// https://www.rfc-editor.org/rfc/rfc7515#section-5.2.
func verified(assertion string, key *rsa.PublicKey) (claims assertedClaims, err error) {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return claims, errors.New("not three parts")
	}
	var decoded [3][]byte
	for i, part := range parts {
		if decoded[i], err = base64.RawURLEncoding.DecodeString(part); err != nil {
			return claims, err
		}
	}
	var header struct{ Alg, Kid string }
	if err := json.Unmarshal(decoded[0], &header); err != nil || header.Alg != "RS256" || header.Kid != "key-1" {
		return claims, fmt.Errorf("another header: %s", decoded[0])
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], decoded[2]); err != nil {
		return claims, err
	}
	return claims, json.Unmarshal(decoded[1], &claims)
}

// list is aggregatedList: a page has one scope, among them some that have no disks of the name.
func list(w http.ResponseWriter, r *http.Request, url string, disks []Disk) {
	query := r.URL.Query()
	name, ok := strings.CutPrefix(query.Get("filter"), "name = ")
	if !ok || query.Get("returnPartialSuccess") != "true" {
		GCEError(http.StatusBadRequest, "invalid", "Invalid value for field 'filter'")(w, r)
		return
	}
	scopes := map[string]map[string]any{}
	for _, empty := range []string{"zones/asia-east1-a", "regions/us-central1", "global"} {
		scopes[empty] = map[string]any{"warning": map[string]string{"code": "NO_RESULTS_ON_PAGE",
			"message": "There are no results for scope '" + empty + "' on this page."}}
	}
	for _, d := range disks {
		if d.Name == name {
			found, _ := scopes[d.scope()]["disks"].([]any)
			scopes[d.scope()] = map[string]any{"disks": append(found, d.json(url))}
		}
	}
	page := 0
	if token := query.Get("pageToken"); token != "" {
		page, _ = strconv.Atoi(strings.TrimPrefix(token, "page="))
	}
	names := slices.Sorted(maps.Keys(scopes))
	said := map[string]any{"kind": "compute#diskAggregatedList",
		"items": map[string]any{names[page]: scopes[names[page]]}}
	if page+1 < len(names) {
		said["nextPageToken"] = fmt.Sprintf("page=%d", page+1)
	}
	JSON(http.StatusOK, said)(w, r)
}

// GCEError answers with an error, whose reason is one word.
func GCEError(status int, reason, message string) http.HandlerFunc {
	return JSON(status, map[string]any{"error": map[string]any{
		"code": status, "message": message,
		"errors": []any{map[string]string{"message": message, "domain": "global", "reason": reason}},
	}})
}

// JSON answers with a value in JSON.
func JSON(status int, value any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(value)
	}
}
