// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/plugin"
	"gatehouse.dev/webhook/review"
)

// report reports one call to the chain's observers. start is zero if the webhook wasn't called,
// response is nil if it didn't answer, and ignored reports whether err is ignored.
func (r *request) report(h *hook, start time.Time, elapsed time.Duration, err error, ignored bool,
	response *review.Response, result effect) {
	if r.calls == nil {
		return
	}
	call := plugin.Call{Kind: plugin.Webhook, Name: h.name, Configuration: h.configuration, Backend: h.backend,
		Verdict: plugin.Admitted, Ignored: ignored, Start: start, Duration: elapsed, Changes: result.changes}
	switch {
	case err != nil:
		call.Verdict, call.Code = verdictOf(err)
		call.Why = h.explain(err)
	case len(result.dropped) > 0:
		call.Why = fmt.Sprintf("its patch set %s, which objects of this kind don't have",
			strings.Join(result.dropped, ", "))
	}
	if response != nil {
		call.Warnings = response.Warnings
	}
	r.calls.Add(call)
}

// explain returns an error's text. If a certificate's authority is unknown because the configuration
// names none, the text says so.
func (h *hook) explain(err error) string {
	var failure *webhookutil.ErrCallingWebhook // it has no Unwrap
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &failure) && errors.As(failure.Reason, &unknown) && len(h.spec.ClientConfig.CABundle) == 0 {
		return err.Error() + "; its clientConfig.caBundle is empty"
	}
	return err.Error()
}

// verdictOf returns Refused if the webhook denied the request or the client made a mistake, Failed
// otherwise, and the code.
func verdictOf(err error) (plugin.Verdict, int32) {
	var denial *webhookutil.ErrWebhookRejection
	var failure *webhookutil.ErrCallingWebhook
	var status apierrors.APIStatus
	var condition conditionError
	switch {
	case errors.As(err, &denial):
		return plugin.Refused, denial.Status.ErrStatus.Code
	case errors.As(err, &failure):
		return plugin.Failed, failure.Status.ErrStatus.Code
	case errors.As(err, &condition):
		return plugin.Failed, condition.ErrStatus.Code
	case errors.As(err, &status) && status.Status().Code < 500:
		return plugin.Refused, status.Status().Code
	}
	return plugin.Failed, 0
}

// backendAddress returns the address of a webhook for reports: its URL without credentials, or
// https://name.namespace.svc:port/path for a service.
func backendAddress(cc *admissionregistrationv1.WebhookClientConfig) string {
	if cc.Service == nil {
		if cc.URL == nil {
			return ""
		}
		if u, err := url.Parse(*cc.URL); err == nil {
			u.User, u.RawQuery = nil, "" // they may contain credentials
			return u.String()
		}
		return ""
	}
	u := url.URL{Scheme: "https", Host: cc.Service.Name + "." + cc.Service.Namespace + ".svc"}
	if port := cc.Service.Port; port != nil && *port != 443 {
		u.Host += ":" + strconv.Itoa(int(*port))
	}
	if cc.Service.Path != nil {
		u.Path = path.Join("/", *cc.Service.Path)
	}
	return u.String()
}

// reportSkipped reports a webhook that has a rule for the request, but isn't called.
func (r *request) reportSkipped(c *candidate, why string) {
	if r.calls != nil {
		r.calls.Add(plugin.Call{Kind: plugin.Webhook, Name: c.name, Configuration: c.configuration,
			Backend: c.backend, Verdict: plugin.Skipped, Why: why})
	}
}

// reportConditions reports a webhook that isn't called because of its match conditions.
func (r *request) reportConditions(c *candidate, verdict expression.Verdict) {
	switch {
	case r.calls == nil:
	case verdict.Err != nil:
		r.calls.Add(plugin.Call{Kind: plugin.Webhook, Name: c.name, Configuration: c.configuration,
			Backend: c.backend, Verdict: plugin.Failed, Ignored: true, Why: verdict.Err.Error()})
	default:
		r.reportSkipped(c, fmt.Sprintf("match condition %q is false", verdict.Failed))
	}
}
