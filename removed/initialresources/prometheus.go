// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package initialresources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// maxAnswer bounds what is read of an answer, in bytes: many times the size of a single number.
const maxAnswer = 1 << 20

// prometheus is a client of Prometheus' HTTP API,
// https://prometheus.io/docs/prometheus/latest/querying/api/.
type prometheus struct {
	url    *url.URL
	client *http.Client
}

// newPrometheus takes the address of the API; a user and password in it are sent with each query.
func newPrometheus(address *url.URL) *prometheus {
	return &prometheus{
		url:    address.JoinPath("api/v1/query"),
		client: &http.Client{Transport: utilnet.SetTransportDefaults(&http.Transport{})},
	}
}

// A queryError says why Prometheus rejects a query. It would reject the same query again, whereas
// other errors may pass.
type queryError struct{ message string }

func (e *queryError) Error() string { return e.message }

// answer holds the part that matters here of the API's answer to a query whose result is a vector.
type answer struct {
	Status string `json:"status"`
	Error  string `json:"error"`
	Data   struct {
		ResultType string `json:"resultType"`
		Result     []struct {
			Value [2]json.RawMessage `json:"value"` // time and value, the value as a string
		} `json:"result"`
	} `json:"data"`
}

// query returns the value of a query whose result has one element. It returns false if the result
// has none.
func (p *prometheus) query(ctx context.Context, query string) (float64, bool, error) {
	form := url.Values{"query": {query}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return 0, false, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := p.client.Do(request)
	if err != nil {
		return 0, false, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return 0, false, err
	}
	value, found, err := parseAnswer(response.StatusCode, response.Header.Get("Content-Type"), body)
	if err != nil {
		return 0, false, fmt.Errorf("%s: %s: %w", request.URL.Redacted(), response.Status, err)
	}
	return value, found, nil
}

func parseAnswer(status int, contentType string, body []byte) (value float64, found bool, err error) {
	if mediaType, _, _ := mime.ParseMediaType(contentType); mediaType != "application/json" {
		return 0, false, fmt.Errorf("the answer's content type is %q, must be application/json", contentType)
	}
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return 0, false, fmt.Errorf("the answer is not that of Prometheus' API: %w", err)
	}
	switch {
	case status == http.StatusBadRequest || status == http.StatusUnprocessableEntity:
		return 0, false, &queryError{a.Error}
	case status != http.StatusOK || a.Status != "success":
		return 0, false, errors.New(a.Error)
	case a.Data.ResultType != "vector" || len(a.Data.Result) > 1:
		return 0, false, fmt.Errorf("the answer has %d elements of the type %q, must be one element of a vector",
			len(a.Data.Result), a.Data.ResultType)
	case len(a.Data.Result) == 0:
		return 0, false, nil
	}
	var text string
	if err := json.Unmarshal(a.Data.Result[0].Value[1], &text); err != nil {
		return 0, false, fmt.Errorf("the answer's value is not a number: %w", err)
	}
	if value, err = strconv.ParseFloat(text, 64); err != nil {
		return 0, false, fmt.Errorf("the answer's value is not a number: %w", err)
	}
	return value, true, nil
}
