// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certificates keeps the serving certificate of a webhook server's replicas, and the
// authorities with which API servers verify it.
//
//	Own     makes an authority and a serving certificate of the installation's own, in a Secret
//	        which all replicas share: the first replica that finds something missing, garbled or
//	        near its end writes it anew, with optimistic locking, and the others follow
//	Files   reads certificates that another program keeps in files, and reloads them on change
//
// A change of certificates refuses no call. API servers verify with the caBundle of the webhook
// configurations. Package registration keeps that bundle, and API servers see it some time after
// the certificates have changed here. So each change has two sides:
//
//   - CABundle keeps the old authority beside the new one for as long as replicas may serve a
//     certificate of the old one. That is until its end if it was replaced because it was near its
//     end, and ten minutes if somebody removed it.
//   - A replica keeps the certificate it has until all webhook configurations trust the new one's
//     authority, and for half a minute more, so that API servers can see it too. A certificate that
//     has expired is replaced at once.
//
// In the Secret, ca.crt holds the authorities, the signing one first, and ca.key the key of the
// signing one. tls.crt and tls.key hold the serving certificate. To rotate the authority, delete
// the Secret or store another authority in it. Certificates and authorities are renewed when a
// third of their life is left. Their validity begins an hour before they are made, for clocks that
// are slow.
//
// The package has no promise of compatibility.
package certificates
