// SPDX-License-Identifier: Apache-2.0
//
// A handle of NIXL: a batch of pieces, checked once and posted any number of times, and the
// notification behind it.
#pragma once

#include "engine.hh"

class Transfer final : public abi::Request
{
      public:
	Transfer(const Engine &e, abi::Op op);
	~Transfer() override;

	// Check the pieces. An error fails the creation of the handle.
	abi::Status prepare(const std::vector<abi::MetaDesc> &local,
			    const std::vector<abi::MetaDesc> &remote);
	abi::Status post(const std::string *notif);
	abi::Status check();
	bool in_flight() const
	{
		return state == State::BYTES || state == State::NOTICE;
	}
	// End what is in flight by the end of its link.
	void close();

      private:
	enum class State { IDLE, BYTES, NOTICE };

	abi::Status add(const abi::MetaDesc &local, const abi::MetaDesc &remote);
	abi::Status post_local(const std::string *notif);
	abi::Status post_remote();
	abi::Status finish(abi::Status status);
	abi::Status notify();

	const Engine &engine;
	const abi::Op op_kind;
	std::shared_ptr<Peer> peer; // NULL: this agent itself
	std::vector<slime_xfer> pieces;
	std::vector<std::shared_ptr<Remote>> remotes; // that pieces refer to
	std::vector<std::shared_ptr<Region>> regions; // the same
	slime_op *op = nullptr;
	State state = State::IDLE;
	std::shared_ptr<Link> link; // while in flight
	bool has_notif = false;
	std::string notif;
	std::unique_ptr<Notice> notice;
};
