package backend

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// Local returns a client for a process on this machine that stands in for the backend that cc
// names, at an http or https URL. Where that has no path the backend's is taken. Who is behind it
// isn't verified: it is the user's own, with whatever certificate.
func Local(at string, cc admissionregistrationv1.WebhookClientConfig) (*Client, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("webhook URL %q: desired format: http://host[/path] or https://host[/path]",
			u.Redacted())
	}
	path := u.Path
	if path == "" || path == "/" {
		switch {
		case cc.Service != nil && cc.Service.Path != nil:
			path = *cc.Service.Path
		case cc.URL != nil:
			if own, err := url.Parse(*cc.URL); err == nil {
				path = own.Path
			}
		}
	}
	c := newClient(u.Host, path)
	c.url.Scheme = u.Scheme // which is the requests', too
	c.transport = &http.Transport{
		Proxy:           nil, // it is here
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		IdleConnTimeout: idleTimeout,
	}
	c.traced = traced(c.transport)
	return c, nil
}
