// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"gatehouse.dev/remote/installation"
)

const (
	// look is how often the time is checked, so that a machine that slept for months renews then.
	look = 10 * time.Minute
	// reading is how often the Secret is read if no event says that it has changed.
	reading = 12 * time.Hour
	// A failed attempt is repeated after these times.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// Options name an installation and the hosts of its certificates.
type Options struct {
	Installation installation.Installation
	// Hosts are the names and IP addresses at which API servers call.
	Hosts  []string
	Client kubernetes.Interface
	// Clock is nil for the real one.
	Clock clock.Clock
}

// Own makes and keeps the certificates of an installation in a Secret that its replicas share.
type Own struct {
	serving
	options Options
	due     time.Time // when the Secret is to be read again
}

// NewOwn returns certificates of an installation. Run reads or makes them.
func NewOwn(o Options) *Own {
	return &Own{serving: newServing(o.Clock), options: o}
}

// Run keeps the Secret valid and follows changes that others make to it, until ctx is done. It logs
// failures and tries again. Until it succeeds, Ready and GetCertificate return the reason.
func (o *Own) Run(ctx context.Context) error {
	name := o.options.Installation.SecretName()
	factory := informers.NewSharedInformerFactoryWithOptions(o.options.Client, 0,
		informers.WithNamespace(o.options.Installation.Namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}))
	wake := func(any) { notify(o.woken) }
	if _, err := factory.Core().V1().Secrets().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: wake, UpdateFunc: func(_, _ any) { notify(o.woken) }, DeleteFunc: wake}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	retry, woken := firstRetry, true
	for ctx.Err() == nil {
		now := o.clock.Now()
		if woken || !now.Before(o.due) {
			if err := o.read(ctx); err != nil {
				o.fail(err)
				if ctx.Err() == nil {
					klog.ErrorS(err, "The certificates aren't what they should be", "retry", retry)
				}
				o.due, retry = now.Add(retry), min(2*retry, lastRetry)
			} else {
				retry = firstRetry
			}
		}
		next := now.Add(look)
		for _, due := range []time.Time{o.choose(), o.due} {
			if !due.IsZero() {
				next = earliest(next, due)
			}
		}
		woken = o.wait(ctx, next)
	}
	return nil
}

// wait waits until a time, or until the certificates are woken, and reports whether they were.
func (o *Own) wait(ctx context.Context, until time.Time) (woken bool) {
	timer := o.clock.NewTimer(until.Sub(o.clock.Now()))
	defer timer.Stop()
	// The clock may have been put forward before the timer was there.
	if !o.clock.Now().Before(until) {
		return false
	}
	select {
	case <-ctx.Done():
	case <-o.woken:
		return true
	case <-timer.C():
	}
	return false
}

// read reads the Secret, writes it anew if it must, and offers its content.
func (o *Own) read(ctx context.Context) error {
	secrets := o.options.Client.CoreV1().Secrets(o.options.Installation.Namespace)
	for {
		secret, err := secrets.Get(ctx, o.options.Installation.SecretName(), metav1.GetOptions{})
		missing := apierrors.IsNotFound(err)
		if err != nil && !missing {
			return err
		}
		if missing {
			secret = &corev1.Secret{Type: corev1.SecretTypeTLS}
		} else if !o.options.Installation.Owns(secret) {
			return o.options.Installation.Foreign(corev1.Resource("secrets"), secret)
		}
		// The same time decides what is due now and when to ask again. With two readings, a clock
		// that is put forward between them would hide what came due meanwhile.
		now := o.clock.Now()
		m, err := materialOf(secret.Data, o.options.Installation.Name, o.options.Hosts, now)
		if err != nil {
			return fmt.Errorf("making certificates: %w", err)
		}
		if len(m.why) > 0 {
			if err := o.write(ctx, secret, m, missing); apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
				continue // another replica was faster
			} else if err != nil {
				return err
			}
		}
		o.offer(m.pair, m.bundle)
		o.due = now.Add(reading)
		for _, c := range append([]*x509.Certificate{m.pair.Leaf}, m.bundle...) {
			if renewed := renewal(c); renewed.After(now) {
				o.due = earliest(o.due, renewed)
			}
			if c.NotAfter.After(now) {
				o.due = earliest(o.due, c.NotAfter.Add(time.Second))
			}
		}
		return nil
	}
}

func (o *Own) write(ctx context.Context, secret *corev1.Secret, m *material, missing bool) error {
	i, secrets := o.options.Installation, o.options.Client.CoreV1().Secrets(o.options.Installation.Namespace)
	i.Adopt(secret)
	secret.Data = m.data
	if missing {
		secret.Name, secret.Namespace = i.SecretName(), i.Namespace
		_, err := secrets.Create(ctx, secret, metav1.CreateOptions{})
		if apierrors.IsNotFound(err) {
			if err = i.MakeNamespace(ctx, o.options.Client); err == nil {
				_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
			}
		}
		if err == nil {
			klog.InfoS("Made certificates", "secret", klog.KObj(secret))
		}
		return err
	}
	_, err := secrets.Update(ctx, secret, metav1.UpdateOptions{})
	if apierrors.IsInvalid(err) {
		// Somebody made it immutable, say. It is made anew then.
		err = secrets.Delete(ctx, secret.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion}})
		if err == nil || apierrors.IsNotFound(err) {
			return apierrors.NewConflict(corev1.Resource("secrets"), secret.Name, errors.New("it is made anew"))
		}
	}
	if err == nil {
		klog.InfoS("Made certificates anew", "secret", klog.KObj(secret), "why", strings.Join(m.why, "; "))
	}
	return err
}
