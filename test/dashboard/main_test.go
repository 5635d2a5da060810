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
	"testing"

	"gatehouse.dev/cli"
	"gatehouse.dev/plugins"
	"gatehouse.dev/test/chromium"
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

// browser is a page, and what it did since it was last asked about it.
type browser struct {
	*chromium.Page
	hosts map[string]bool
	paths map[string]int // how often each was asked for, without the page's own path
	wrong []string       // what the page complains about
}

func newBrowser(t testing.TB) *browser {
	t.Helper()
	return &browser{Page: chromium.Open(t), hosts: map[string]bool{}, paths: map[string]int{}}
}

// hear notes the page's requests and its complaints.
func (b *browser) hear() {
	requests, complaints := b.Heard()
	for _, request := range requests {
		if address, err := url.Parse(request); err == nil {
			b.hosts[address.Host] = true
			_, path, _ := strings.Cut(strings.TrimPrefix(address.Path, "/"), "/")
			b.paths["/"+path]++
		}
	}
	b.wrong = append(b.wrong, complaints...)
}

// asked is how often the page has asked for which path since this was called last.
func (b *browser) asked() map[string]int {
	b.hear()
	asked := b.paths
	b.paths = map[string]int{}
	return asked
}

// quiet wants the page to have complained about nothing, and to have asked nobody but its server,
// since this was called last.
func (b *browser) quiet(address string) {
	b.Helper()
	b.hear()
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

const images = "../../docs/images"

// screenshots are the names of all that the documents have.
var screenshots = []string{"requests", "refused", "request-dark", "chain", "parts", "narrow"}

// shoot takes a screenshot for the documents, where one is asked for.
func (b *browser) shoot(name string) {
	b.Helper()
	if os.Getenv("GATEHOUSE_SCREENSHOTS") == "" {
		return
	}
	b.Until("!document.querySelector('#filters select:focus')")
	picture, err := small(b.Picture())
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
