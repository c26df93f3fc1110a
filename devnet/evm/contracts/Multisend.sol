// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.37;

// Moves value in the ways that an indexer can get wrong: many internal calls, a call undone by a swallowed revert, a
// contract that destroys itself, several token transfers in one transaction. Anybody may call it; it keeps nothing.
contract Multisend {
    // Pays each recipient by an internal call; all or none.
    function pay(address payable[] calldata to, uint256[] calldata values) external payable {
        for (uint256 i = 0; i < to.length; i++) {
            (bool paid, ) = to[i].call{value: values[i]}("");
            require(paid, "Multisend: a payment failed");
        }
    }

    // Pays inside a call that then reverts: the transaction succeeds, a payment stands in its trace, and nothing arrives.
    function payAndRevertInside(address payable to) external payable {
        try this.payThenRevert{value: msg.value}(to) {} catch {}
        (bool returned, ) = msg.sender.call{value: address(this).balance}("");
        require(returned, "Multisend: the change was refused");
    }

    function payThenRevert(address payable to) external payable {
        (bool paid, ) = to.call{value: msg.value}("");
        require(paid, "Multisend: a payment failed");
        revert("Multisend: undone");
    }

    // Pays by a contract that is created with the value and destroys itself in favour of the recipient.
    function payBySelfdestruct(address payable to) external payable {
        new Bequest{value: msg.value}(to);
    }

    // Needs an allowance from the caller. Some tokens return nothing.
    function payTokens(address token, address[] calldata to, uint256[] calldata values) external {
        for (uint256 i = 0; i < to.length; i++) {
            (bool done, bytes memory returned) = token.call(
                abi.encodeWithSignature("transferFrom(address,address,uint256)", msg.sender, to[i], values[i])
            );
            require(done && (returned.length == 0 || abi.decode(returned, (bool))), "Multisend: a transfer failed");
        }
    }
}

contract Bequest {
    constructor(address payable heir) payable {
        selfdestruct(heir);
    }
}
