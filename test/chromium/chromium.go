// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chromium opens pages in a real Chromium and uses them as people do, for tests.
package chromium

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"gatehouse.dev/test/needs"
)

// A Page is a page in a Chromium of its own. Its methods fail the test if they can't do their work.
type Page struct {
	testing.TB
	// Context is what chromedp's functions work with.
	Context context.Context

	mu                   sync.Mutex
	requests, complaints []string
}

// deadline is how long anything may take on a busy machine.
const deadline = time.Minute

// Open starts a Chromium, which ends with the test.
func Open(t testing.TB) *Page {
	t.Helper()
	needs.Programs(t, "chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.DisableGPU)
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which Chromium has for no root
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := &Page{TB: t, Context: ctx}
	p.Do()
	if err := chromedp.Listen(ctx, p.hear); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *Page) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch event := event.(type) {
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, event.Request.URL)
	case *runtime.EventExceptionThrown:
		text := event.ExceptionDetails.Text
		if thrown := event.ExceptionDetails.Exception; thrown != nil {
			text += " " + thrown.Description
		}
		p.complaints = append(p.complaints, text)
	case *runtime.EventConsoleAPICalled:
		p.complaints = append(p.complaints, "the console has something of type "+string(event.Type))
	case *log.EventEntryAdded:
		p.complaints = append(p.complaints, event.Entry.Text+" "+event.Entry.URL)
	}
}

// Heard returns the addresses that the page asked for since this was called last, and what it complained about.
func (p *Page) Heard() (requests, complaints []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	requests, complaints = p.requests, p.complaints
	p.requests, p.complaints = nil, nil
	return requests, complaints
}

// Do does actions one after the other.
func (p *Page) Do(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	if err := chromedp.Do(p.Context, actions...); err != nil {
		p.Fatal(err)
	}
}

// See returns the value of a JavaScript expression in the page.
func See[T any](p *Page, script string) T {
	p.Helper()
	got, err := chromedp.Run(p.Context, chromedp.Evaluate[T](script))
	if err != nil {
		p.Fatalf("%s: %v", script, err)
	}
	return got
}

// Until waits until a JavaScript expression is true in the page, or in the one that it leads to.
func (p *Page) Until(script string) {
	p.Helper()
	for end := time.Now().Add(deadline); ; time.Sleep(10 * time.Millisecond) {
		// A page that is being left can't answer.
		so, err := chromedp.Run(p.Context, chromedp.Evaluate[bool]("Boolean("+script+")"))
		if so {
			return
		}
		if time.Now().After(end) {
			p.Fatalf("waiting for %s: %v; the page says\n%s", script, err, See[string](p, "document.body.innerText"))
		}
	}
}

// Press presses one key after the other, for what has the focus. A character is one event, as from a keyboard:
// what the page does about the key keeps it from being written.
func (p *Page) Press(keys ...string) {
	p.Helper()
	for _, key := range keys {
		if len(key) > 1 || key < " " {
			p.Do(chromedp.KeyEvent(key))
			continue
		}
		for _, params := range []input.DispatchKeyEventParams{
			{Type: input.DispatchKeyEventTypeKeyDown, Key: key, Text: key},
			{Type: input.DispatchKeyEventTypeKeyUp, Key: key},
		} {
			if _, err := chromedp.Call(p.Context, input.DispatchKeyEvent, params); err != nil {
				p.Fatal(err)
			}
		}
	}
}

// As shows the page on a screen of a size in pixels, to a user who likes it light or dark, and with motion as
// no-preference or reduce says.
func (p *Page) As(width, height int64, scheme, motion string) {
	p.Helper()
	if _, err := chromedp.Call(p.Context, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme},
			{Name: "prefers-reduced-motion", Value: motion}},
	}); err != nil {
		p.Fatal(err)
	}
	p.Do(chromedp.EmulateViewport(width, height))
}

// Picture returns what the screen shows, as PNG.
func (p *Page) Picture() []byte {
	p.Helper()
	picture, err := chromedp.Run(p.Context, chromedp.CaptureScreenshot())
	if err != nil {
		p.Fatal(err)
	}
	return picture
}

// Quoted returns text as JavaScript has it.
func Quoted(text string) string {
	encoded, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string is JSON
	}
	return string(encoded)
}
