// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dashboard_test opens `gatehouse dashboard` of a running server in a real Chromium, and
// uses it as people do: with the keyboard, in the dark, on a small screen, with ten thousand
// requests. Its screenshots are those of docs/dashboard.md:
//
//	GATEHOUSE_SCREENSHOTS=1 go test ./test/dashboard -run=TestPage
package dashboard_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

	"gatehouse.dev/cli"
	"gatehouse.dev/plugins"
	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/servertest"
)

func TestMain(m *testing.M) { new(servertest.Suite).Main(m) }

// command runs gatehouse dashboard, and is the URL that it prints.
func command(t testing.TB, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	ended := make(chan int, 1)
	var stderr strings.Builder
	go func() {
		ended <- cli.Run(ctx, plugins.List, append([]string{"dashboard", "--no-browser"}, args...), in, &stderr)
		in.Close()
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != 0 || stderr.Len() > 0 {
			t.Errorf("gatehouse dashboard ended with %d: %s", code, stderr.String())
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), "The dashboard is at "); ok {
			go io.Copy(io.Discard, out)
			return address
		}
	}
	t.Fatalf("no URL: %s", stderr.String())
	return ""
}

// browser is a page in a Chromium of its own.
type browser struct {
	testing.TB
	ctx context.Context

	mu    sync.Mutex
	hosts map[string]bool
	paths map[string]int // how often each was asked for, without the page's own path
	wrong []string       // what the page complains about
}

// deadline is how long anything may take on a busy machine.
const deadline = time.Minute

func newBrowser(t testing.TB) *browser {
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
	b := &browser{TB: t, ctx: ctx, hosts: map[string]bool{}, paths: map[string]int{}}
	b.do()
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	return b
}

// hear notes where the page goes to, and what it complains about.
func (b *browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch event := event.(type) {
	case *network.EventRequestWillBeSent:
		if address, err := url.Parse(event.Request.URL); err == nil {
			b.hosts[address.Host] = true
			_, path, _ := strings.Cut(strings.TrimPrefix(address.Path, "/"), "/")
			b.paths["/"+path]++
		}
	case *runtime.EventExceptionThrown:
		text := event.ExceptionDetails.Text
		if thrown := event.ExceptionDetails.Exception; thrown != nil {
			text += " " + thrown.Description
		}
		b.wrong = append(b.wrong, text)
	case *runtime.EventConsoleAPICalled:
		b.wrong = append(b.wrong, "the console has something of type "+string(event.Type))
	case *log.EventEntryAdded:
		b.wrong = append(b.wrong, event.Entry.Text+" "+event.Entry.URL)
	}
}

// asked is how often the page has asked for which path since this was called last.
func (b *browser) asked() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	asked := b.paths
	b.paths = map[string]int{}
	return asked
}

// quiet wants the page to have complained about nothing, and to have asked nobody but its server,
// since this was called last.
func (b *browser) quiet(address string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	ours, _ := url.Parse(address)
	for host := range b.hosts {
		if host != ours.Host {
			b.Errorf("the page asks %s", host)
		}
	}
	if len(b.hosts) == 0 {
		b.Error("no request was seen")
	}
	for _, text := range b.wrong {
		b.Errorf("the page complains: %s", text)
	}
	clear(b.hosts)
	b.wrong = nil
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.Fatal(err)
	}
}

// see evaluates JavaScript in the page.
func see[T any](b *browser, script string) T {
	b.Helper()
	got, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script))
	if err != nil {
		b.Fatalf("%s: %v", script, err)
	}
	return got
}

// until waits for something to be so in the page.
func (b *browser) until(script string) {
	b.Helper()
	for end := time.Now().Add(deadline); !see[bool](b, "Boolean("+script+")"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("waiting for %s; the page says\n%s", script, see[string](b, "document.body.innerText"))
		}
	}
}

// press is keys of the keyboard, to whatever has the focus. A character is one event, as from a
// keyboard: what the page does about the key keeps it from being written.
func (b *browser) press(keys ...string) {
	b.Helper()
	for _, key := range keys {
		if len(key) > 1 || key < " " {
			b.do(chromedp.KeyEvent(key))
			continue
		}
		for _, params := range []input.DispatchKeyEventParams{
			{Type: input.DispatchKeyEventTypeKeyDown, Key: key, Text: key},
			{Type: input.DispatchKeyEventTypeKeyUp, Key: key},
		} {
			if _, err := chromedp.Call(b.ctx, input.DispatchKeyEvent, params); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// run is a part of a test, which fails by itself.
func (b *browser) run(t *testing.T, name string, part func(t *testing.T)) {
	t.Helper()
	whole := b.TB
	defer func() { b.TB = whole }()
	if !t.Run(name, func(t *testing.T) {
		b.TB = t
		part(t)
	}) {
		t.FailNow() // what comes goes on from there
	}
}

// as is how large the screen is, and whether its user likes it dark.
func (b *browser) as(width, height int64, scheme string) {
	b.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}); err != nil {
		b.Fatal(err)
	}
	b.do(chromedp.EmulateViewport(width, height))
}

const images = "../../docs/images"

// screenshots are the names of all that the documents have.
var screenshots = []string{"requests", "refused", "request-dark", "chain", "parts", "narrow"}

// shoot takes a screenshot for the documents, where one is asked for.
func (b *browser) shoot(name string) {
	b.Helper()
	if os.Getenv("GATEHOUSE_SCREENSHOTS") == "" {
		return
	}
	b.until("!document.querySelector('#filters select:focus')")
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		picture, err = small(picture)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(images, "dashboard-"+name+".png"), picture, 0o644)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// small is the same picture with its 256 most frequent colours for all that are near them: a page
// has few.
func small(encoded []byte) ([]byte, error) {
	whole, err := png.Decode(bytes.NewReader(encoded))
	if err != nil {
		return nil, err
	}
	count := map[color.Color]int{}
	area := whole.Bounds()
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			count[whole.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	few := image.NewPaletted(area, colours[:min(len(colours), 256)])
	draw.Draw(few, area, whole, area.Min, draw.Src)
	var out bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, few)
	return out.Bytes(), err
}

// quoted is a string as JavaScript has it.
func quoted(text string) string {
	encoded, _ := json.Marshal(text)
	return string(encoded)
}
