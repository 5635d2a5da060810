// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package servertest

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Listening returns the addresses on which a process takes TCP connections or UDP packets, in
// order, as tcp 127.0.0.1:6443.
func Listening(t testing.TB, pid int) []string {
	t.Helper()
	process := fmt.Sprintf("/proc/%d", pid)
	descriptors, err := os.ReadDir(filepath.Join(process, "fd"))
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{} // sockets, by their inodes
	for _, d := range descriptors {
		target, err := os.Readlink(filepath.Join(process, "fd", d.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it has been closed meanwhile
			t.Fatal(err)
		}
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	var all []string
	for _, table := range []struct{ protocol, file, listens string }{
		{"tcp", "tcp", "0A"}, {"tcp", "tcp6", "0A"}, {"udp", "udp", "07"}, {"udp", "udp6", "07"},
	} {
		content, err := os.ReadFile(filepath.Join(process, "net", table.file))
		if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(table.file, "6") {
			continue // a machine without IPv6
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			fields := strings.Fields(line)
			if len(fields) < 10 || fields[3] != table.listens || !own[fields[9]] {
				continue
			}
			address, err := parseSocket(fields[1])
			if err != nil {
				t.Fatalf("/proc/net/%s: %s: %v", table.file, line, err)
			}
			all = append(all, table.protocol+" "+address.String())
		}
	}
	slices.Sort(all)
	return all
}

// parseSocket reads an address of /proc/net: words of the machine's own byte order in hexadecimal.
func parseSocket(text string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(text, ":")
	words, err := hex.DecodeString(host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	for i := 0; i+4 <= len(words); i += 4 {
		binary.BigEndian.PutUint32(words[i:], binary.NativeEndian.Uint32(words[i:]))
	}
	address, ok := netip.AddrFromSlice(words)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("%d bytes are no address", len(words))
	}
	number, err := strconv.ParseUint(port, 16, 16)
	return netip.AddrPortFrom(address, uint16(number)), err
}
