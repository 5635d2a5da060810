// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bytes"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
)

// template is a quota as it is stored in protobuf, ready for another usage of the same quota.
// Everything else is encoded already. That is most of a quota, and encoding it takes most of the
// time of deciding a write.
//
// Its result is the same as the codec's, byte for byte: newTemplate returns none if it isn't, as
// with other formats.
//
// The envelope is a runtime.Unknown, after "k8s\x00".
//
// Source: k8s.io/apimachinery/pkg/runtime/types.go#Unknown 6fd57c81
// Source: k8s.io/api/core/v1/types.go#ResourceQuota dc1690d4
// Source: k8s.io/api/core/v1/types.go#ResourceQuotaStatus c7b77d37
type template struct {
	before []byte // of the envelope, what comes before the quota
	quota  []byte // of the quota, metadata and spec
	hard   []byte // of the status, hard
	after  []byte // of the envelope, what comes after the quota
}

const (
	magic       = "k8s\x00"
	rawField    = 2 // of Unknown
	statusField = 3 // of ResourceQuota
	usedField   = 2 // of ResourceQuotaStatus, after hard
)

// onlyUsage reports whether two states of a quota, as they are stored in protobuf, show a usage and
// differ in nothing else. It reports false of other formats.
func onlyUsage(one, other []byte) bool {
	a, b := besideUsage(one), besideUsage(other)
	return a != nil && b != nil && slices.EqualFunc(a, b, bytes.Equal)
}

// besideUsage returns the parts of a quota that aren't its usage. There are none if it shows no
// usage.
func besideUsage(data []byte) [][]byte {
	envelope, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok {
		return nil
	}
	before, raw, after := cut(envelope, rawField)
	quota, status, rest := cut(raw, statusField)
	hard, used, _ := cut(status, usedField)
	if used == nil {
		return nil
	}
	return [][]byte{before, after, quota, rest, hard}
}

// newTemplate returns the template of q, whose encoding by the codec is data, or nil if there can't
// be one.
func newTemplate(q *corev1.ResourceQuota, data []byte) *template {
	if !bytes.HasPrefix(data, []byte(magic)) {
		return nil
	}
	rawAt, raw, after := cut(data[len(magic):], rawField)
	statusAt, _, rest := cut(raw, statusField)
	hard, err := (&corev1.ResourceQuotaStatus{Hard: q.Status.Hard}).Marshal()
	if rawAt == nil || statusAt == nil || len(rest) > 0 || err != nil {
		return nil
	}
	t := &template{before: data[:len(magic)+len(rawAt)], quota: statusAt, hard: hard, after: after}
	if made, err := t.encode(q.Status.Used); err != nil || !bytes.Equal(made, data) {
		return nil
	}
	return t
}

// cut finds the first field of the number, of bytes: what is before it, what it contains, and what
// is after it. Before is nil if there is none.
func cut(message []byte, number protowire.Number) (before, content, after []byte) {
	for at := 0; at < len(message); {
		n, kind, size := protowire.ConsumeTag(message[at:])
		if size < 0 {
			return nil, nil, nil
		}
		if n == number && kind == protowire.BytesType {
			content, length := protowire.ConsumeBytes(message[at+size:])
			if length < 0 {
				return nil, nil, nil
			}
			return message[:at:at], content, message[at+size+length:]
		}
		length := protowire.ConsumeFieldValue(n, kind, message[at+size:])
		if length < 0 {
			return nil, nil, nil
		}
		at += size + length
	}
	return nil, nil, nil
}

// encode is the quota with the usage.
func (t *template) encode(used corev1.ResourceList) ([]byte, error) {
	usage := corev1.ResourceQuotaStatus{Used: used}
	usageSize := usage.Size()
	statusSize := len(t.hard) + usageSize
	rawSize := len(t.quota) + protowire.SizeTag(statusField) + protowire.SizeBytes(statusSize)
	data := make([]byte, 0, len(t.before)+protowire.SizeTag(rawField)+protowire.SizeBytes(rawSize)+len(t.after))
	data = append(data, t.before...)
	data = protowire.AppendTag(data, rawField, protowire.BytesType)
	data = protowire.AppendVarint(data, uint64(rawSize))
	data = append(data, t.quota...)
	data = protowire.AppendTag(data, statusField, protowire.BytesType)
	data = protowire.AppendVarint(data, uint64(statusSize))
	data = append(data, t.hard...)
	_, err := usage.MarshalToSizedBuffer(data[len(data) : len(data)+usageSize])
	return append(data[:len(data)+usageSize], t.after...), err
}
